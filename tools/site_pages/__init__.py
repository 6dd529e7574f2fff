"""The course as a website: each notebook as a page and as a deck, a start page, references, search.

`build.build` writes it to a folder that opens from disk with the network off.
"""
