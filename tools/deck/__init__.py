"""Slide decks: a notebook becomes one reveal.js file that works from disk, and every slide of it is looked at.

packages.py    the npm packages that a deck carries inside
build.py       notebook -> HTML (templates/lecture, slides.css, deck.js)
chromium.py    a headless browser that refuses every outside request
inspection.py  what is wrong with a deck (measure.js), pictures of its slides, PDF
"""
