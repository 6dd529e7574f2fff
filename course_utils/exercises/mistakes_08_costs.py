"""Wrong answers to the exercise of lecture 8 on what attention costs, each with the hint for whoever wrote it."""

from course_utils.exercises.engine import Mistake, pairs, variations

# ---- the three numbers, with parts that can be exchanged ------------------------------------------------------------


def _four(T, S, D, H):
    """Multiplications of one sequence in its four projections."""
    return (2 * T + 2 * S) * D * D


def _two(T, S, D, H):
    """Multiplications of one sequence in Q K^T and in the product of the weights with V."""
    return 2 * T * S * D


def _cost(B, T, S, D, H, bytes_per_number=4, *, factor=lambda B: 2 * B, project=_four, look=_two,
          more=lambda B, T, S, D, H: 0, weights=lambda B, T, S, D, H: B * H * T * S,
          cache=lambda B, T, S, D, H: 2 * B * S * D, size=lambda given: given):
    flops = factor(B) * (project(T, S, D, H) + look(T, S, D, H)) + more(B, T, S, D, H)
    return flops, weights(B, T, S, D, H) * size(bytes_per_number), cache(B, T, S, D, H) * size(bytes_per_number)


# ---- one thing changed in flops -------------------------------------------------------------------------------------

_TWICE = "heads are counted twice: a head is K = D / H wide, so all H together cost what one of width D would"
_MORE = ("You count more than the matrix products: {}. The 2 m n p operations of each product (m, n) (n, p) are all "
         "that is asked for.")
_ROWS = "Your projections have {}. W_Q and W_O act on the T tokens that ask, W_K and W_V on the S that are asked."
_PAIRS = "Your scores and mixtures {}. Each of the T tokens that ask looks at each of the S that are asked."
_HALF = ("You count half of the products over pairs of tokens: is Q Kᵀ or weights times V missing, or the 2 for "
         "additions, or did you halve for a causal mask? Both products count in full: what a mask hides is computed, "
         "too.")
_OPERATIONS = {
    "multiply-adds": (dict(factor=lambda B: B), (
        "You count multiply–adds, as some libraries do, and get half of the operations. A multiplication and an "
        "addition are two.")),
    "factor 4": (dict(factor=lambda B: 4 * B), (
        "Your operations are twice as many as they are: is the 2 for a multiplication and an addition in there twice? "
        "A product (m, n) (n, p) has 2 m n p operations.")),
    "backward": (dict(factor=lambda B: 6 * B), (
        "Your operations are three times as many: that counts a backward pass, too, which costs twice the forward "
        "pass. Only the forward pass is asked for.")),
    "no batch": (dict(factor=lambda B: 2), (
        "B plays no part in your operations. The matrices are shared by all sequences, but each sequence is multiplied "
        "by them.")),
    "no batch in the projections": (dict(project=lambda T, S, D, H: 0, more=lambda B, T, S, D, H: 2 * _four(
        T, S, D, H)), (
        "B plays no part in your projections. The matrices are shared by all sequences, but B T and B S rows are "
        "multiplied by them.")),
    "no batch in scores and mixtures": (dict(look=lambda T, S, D, H: 0, more=lambda B, T, S, D, H: 2 * _two(
        T, S, D, H)), (
        "B plays no part in your scores and mixtures. The tokens of each of the B sequences look at their own S "
        "tokens.")),
    "no output projection": (dict(project=lambda T, S, D, H: (T + 2 * S) * D * D), (
        "Your projections are those of Q, K and V alone. W_O comes after the heads, T rows times (D, D).")),
    "output of S": (dict(project=lambda T, S, D, H: (T + 3 * S) * D * D), _ROWS.format(
        "T rows once and S rows three times")),
    "keys or values of T": (dict(project=lambda T, S, D, H: (3 * T + S) * D * D), _ROWS.format(
        "T rows three times and S rows once")),
    "all of T": (dict(project=lambda T, S, D, H: 4 * T * D * D), _ROWS.format(
        "T rows four times, as if keys and values came from the tokens that ask")),
    "all of S": (dict(project=lambda T, S, D, H: 4 * S * D * D), _ROWS.format("S rows four times")),
    "all of both": (dict(project=lambda T, S, D, H: 4 * (T + S) * D * D), _ROWS.format(
        "T rows and S rows four times each")),
    "three of T": (dict(project=lambda T, S, D, H: 3 * T * D * D), (
        "Your projections are three, all of the T tokens. W_O is a fourth, and keys and values are made of the S "
        "tokens that are asked.")),
    "keys or values": (dict(project=lambda T, S, D, H: (2 * T + S) * D * D), (
        "Your keys and values have one projection between them. W_K and W_V are two matrices, and each acts on all S "
        "tokens.")),
    "no keys and values": (dict(project=lambda T, S, D, H: 2 * T * D * D), (
        "Your keys and values cost nothing. W_K and W_V make them of all S tokens: here nothing is taken from a "
        "cache.")),
    "no queries and outputs": (dict(project=lambda T, S, D, H: 2 * S * D * D), (
        "Your projections are those of keys and values alone. W_Q makes queries of the T tokens, and W_O their "
        "outputs.")),
    "each once": (dict(project=lambda T, S, D, H: (T + S) * D * D), (
        "Your projections are half as many as there are: is the 2 for additions missing there? W_Q and W_O are two for "
        "T tokens, W_K and W_V two for S.")),
    "no projections": (dict(project=lambda T, S, D, H: 0), (
        "Your operations lack the projections, the products with W_Q, W_K, W_V and W_O. While sequences are shorter "
        "than D, they are the larger part.")),
    "each head projects to D": (dict(project=lambda T, S, D, H: H * _four(T, S, D, H)), (
        f"In your projections {_TWICE}. The four matrices are (D, D), whatever H is.")),
    "one head's projections": (dict(project=lambda T, S, D, H: _four(T, S, D, H) / H), (
        "Your matrices have D K numbers each: those of one head, or those of all heads if each read a slice of the "
        "token. Every head reads all D numbers, and all H together have the four matrices (D, D).")),
    "K by K": (dict(project=lambda T, S, D, H: _four(T, S, D / H, H)), (
        "Your projections have K² numbers each. A head reads all D numbers of a token, and all H heads together have "
        "the four matrices (D, D).")),
    "D once": (dict(project=lambda T, S, D, H: (2 * T + 2 * S) * D), (
        "Your projections cost D for each token. A row of D numbers times a matrix (D, D) takes D multiplications for "
        "each of D results: D².")),
    "half": (dict(look=lambda T, S, D, H: T * S * D), _HALF),
    "triangle": (dict(look=lambda T, S, D, H: D * T * (2 * S - T + 1)), (
        "You leave out the pairs that a causal mask hides. All T S pairs count: a product computes them, and a mask "
        "hides some of them afterward.")),
    "no look": (dict(look=lambda T, S, D, H: 0), (
        "You count the projections alone, 2 operations for each weight and token. Scores Q Kᵀ and weights times V use "
        "no weights of the model, and grow with T S.")),
    "T by T": (dict(look=lambda T, S, D, H: 2 * T * T * D), _PAIRS.format("grow with T²")),
    "S by S": (dict(look=lambda T, S, D, H: 2 * S * S * D), _PAIRS.format("grow with S²")),
    "both by both": (dict(look=lambda T, S, D, H: 2 * (T + S)**2 * D), _PAIRS.format("grow with (T + S)²")),
    "each head D wide": (dict(look=lambda T, S, D, H: 2 * H * T * S * D), f"In your scores and mixtures {_TWICE}."),
    "one head": (dict(look=lambda T, S, D, H: 2 * T * S * D / H), (
        "Your scores and mixtures are those of one head, K wide. There are H heads, and H K = D.")),
    "no width": (dict(look=lambda T, S, D, H: 2 * H * T * S), (
        "Your scores and mixtures have no width. Each score of a head is a sum over its K numbers, and H K = D.")),
    "no width, no heads": (dict(look=lambda T, S, D, H: 2 * T * S), (
        "Your scores and mixtures cost one multiplication for each pair of tokens. Each head has K, and H K = D.")),
    "mixtures without width": (dict(look=lambda T, S, D, H: T * S * D + H * T * S), (
        "One of your two products over pairs of tokens has no width. A mixture takes all K numbers of a value, as a "
        "score takes all K of a key: T S D each.")),
    "biases": (dict(more=lambda B, T, S, D, H: B * (2 * T + 2 * S) * D), _MORE.format(
        "D additions of a bias for each row, too")),
    "exact additions": (dict(more=lambda B, T, S, D, H: -B * ((3 * T + 2 * S) * D + H * T * S)), (
        "You count n - 1 additions for a sum of n products, which is right by the letter. The usual count, asked for "
        "here, is 2 n: a multiplication and an addition for each.")),
    "feed-forward": (dict(more=lambda B, T, S, D, H: 16 * B * T * D * D), _MORE.format(
        "a feed-forward network of width 4 D, too")),
    **{f"softmax, {n}": (dict(more=lambda B, T, S, D, H, n=n: n * B * H * T * S), _MORE.format(
        "something for each score, too, as scale, mask and softmax take")) for n in (1, 2, 3, 4, 5, 6)},
}

# ---- one thing changed in bytes -------------------------------------------------------------------------------------

_WEIGHTS = "Your weights {}. Each head of each sequence has a weight for each of its T S pairs: B H T S numbers."
_CACHE = "Your cache {}. It keeps a key and a value for each of the S tokens of each sequence: 2 B S D numbers."
_WEIGHT_BYTES = {
    "matrices": (dict(weights=lambda B, T, S, D, H: 4 * D * D), _WEIGHTS.format(
        "are the matrices W_Q, W_K, W_V and W_O, and what is meant are those that the softmax makes")),
    "weights without heads": (dict(weights=lambda B, T, S, D, H: B * T * S), _WEIGHTS.format(
        "are those of one head")),
    "weights without batch": (dict(weights=lambda B, T, S, D, H: H * T * S), _WEIGHTS.format(
        "are those of one sequence")),
    "one matrix of weights": (dict(weights=lambda B, T, S, D, H: T * S), _WEIGHTS.format(
        "are those of one head in one sequence")),
    "weights T by T": (dict(weights=lambda B, T, S, D, H: B * H * T * T), _WEIGHTS.format("grow with T²")),
    "weights S by S": (dict(weights=lambda B, T, S, D, H: B * H * S * S), _WEIGHTS.format("grow with S²")),
    "weights D wide": (dict(weights=lambda B, T, S, D, H: B * T * S * D), _WEIGHTS.format(
        "have D numbers for each pair of tokens; a score is the sum over them")),
    "weights K wide": (dict(weights=lambda B, T, S, D, H: B * T * S * D / H), _WEIGHTS.format(
        "have K numbers for each pair of tokens; a score is the sum over them")),
    "scores, too": (dict(weights=lambda B, T, S, D, H: 2 * B * H * T * S), _WEIGHTS.format(
        "are counted twice: do you count the scores, too?")),
    "half of the weights": (dict(weights=lambda B, T, S, D, H: B * H * T * S / 2), _WEIGHTS.format(
        "are half as many; a mask makes zeros of the others, which take memory, too")),
    "triangle of weights": (dict(weights=lambda B, T, S, D, H: B * H * T * (2 * S - T + 1) / 2), _WEIGHTS.format(
        "lack those that a causal mask hides; they are zeros, which take memory, too")),
}
_CACHE_BYTES = {
    "keys alone": (dict(cache=lambda B, T, S, D, H: B * S * D), _CACHE.format(
        "is half as large as it must be, keys or values")),
    "cache of T": (dict(cache=lambda B, T, S, D, H: 2 * B * T * D), _CACHE.format(
        "has T rows: are T and S exchanged?")),
    "cache of both": (dict(cache=lambda B, T, S, D, H: 2 * B * (T + S) * D), _CACHE.format(
        "has T + S rows; the S tokens are all that are asked")),
    "cache of all pairs": (dict(cache=lambda B, T, S, D, H: 2 * B * T * S * D), _CACHE.format(
        "grows with T S; all queries look at the same keys and values")),
    "cache with heads": (dict(cache=lambda B, T, S, D, H: 2 * B * H * S * D), f"In your cache {_TWICE}."),
    "cache of one head": (dict(cache=lambda B, T, S, D, H: 2 * B * S * D / H), _CACHE.format(
        "is that of one head, K wide")),
    "cache without width": (dict(cache=lambda B, T, S, D, H: 2 * B * H * S), _CACHE.format(
        "has one number for each head and token")),
    "cache without batch": (dict(cache=lambda B, T, S, D, H: 2 * S * D), _CACHE.format("is that of one sequence")),
    "queries, too": (dict(cache=lambda B, T, S, D, H: 3 * B * S * D), _CACHE.format(
        "has three numbers where two are needed; a query is used once and never again")),
    "queries of T, too": (dict(cache=lambda B, T, S, D, H: 2 * B * S * D + B * T * D), _CACHE.format(
        "holds queries, too, which are used once and never again")),
    "weights in the cache": (dict(cache=lambda B, T, S, D, H: 2 * B * S * D + B * H * T * S), _CACHE.format(
        "holds the weights, too, which later tokens don't use")),
}
_SIZES = {
    "numbers": (dict(size=lambda given: 1), (
        "You return how many numbers there are. Each takes bytes_per_number bytes.")),
    "always 4": (dict(size=lambda given: 4), (
        "You take 4 bytes for each number, whatever bytes_per_number is. Half precision has 2.")),
    "bits": (dict(size=lambda given: 8 * given), (
        "Your bytes are bits: there are 8 of those in a byte. bytes_per_number is what one number takes.")),
    **{f"units of {unit}": (dict(size=lambda given, unit=unit: given / unit), (
        f"Your memory is in units of {unit} bytes. Return bytes.")) for unit in (1000, 1024, 10**6, 2**20)},
}

# ---- mistakes of another form ---------------------------------------------------------------------------------------


def _all_T(B, T, S, D, H, n=4):
    return _cost(B, T, T, D, H, n)


def _all_S(B, T, S, D, H, n=4):
    return _cost(B, S, S, D, H, n)


def _all_both(B, T, S, D, H, n=4):
    return _cost(B, T + S, T + S, D, H, n)


def _one_sequence(B, T, S, D, H, n=4):
    return _cost(1, T, S, D, H, n)


def _cache_second(B, T, S, D, H, n=4):
    flops, weights, cache = _cost(B, T, S, D, H, n)
    return flops, cache, weights


def _flops_last(B, T, S, D, H, n=4):
    flops, weights, cache = _cost(B, T, S, D, H, n)
    return weights, cache, flops


def _flops_times_bytes(B, T, S, D, H, n=4):
    flops, weights, cache = _cost(B, T, S, D, H, n)
    return flops * n, weights, cache


def _cached(B, T, S, D, H, n=4):
    """As in a decoder: T new tokens, whose keys and values are behind those of S earlier ones."""
    return _cost(B, T, T + S, D, H, n, project=lambda T, S, D, H: 4 * T * D * D)


def _D_is_a_head(B, T, S, D, H, n=4):
    return _cost(B, T, S, H * D, H, n)


_ORDER = "You return the right numbers in another order. It is (flops, weight_bytes, cache_bytes)."
ATTENTION_COST = [*variations(_cost, _OPERATIONS | _WEIGHT_BYTES | _CACHE_BYTES | _SIZES), *(Mistake(*row) for row in [
    (_all_T, "S plays no part in your result. T tokens ask and S are asked: they are the same in self-attention alone.",
     "T everywhere"),
    (_all_S, "T plays no part in your result. T tokens ask and S are asked: they are the same in self-attention alone.",
     "S everywhere"),
    (_all_both, "You count one sequence of T + S tokens. T tokens ask and S are asked: the T don't look at each other.",
     "T + S everywhere"),
    (_one_sequence, "B plays no part in your result. Each of the B sequences has products, weights and a cache of its "
     "own.", "one sequence"),
    (_cache_second, _ORDER, "cache second"),
    (_flops_last, _ORDER, "flops last"),
    (_flops_times_bytes, "Your operations are multiplied by bytes_per_number. They are counted whatever the numbers "
     "take in memory.", "operations times bytes"),
    (_cached, "You add T new tokens to S cached ones. Here S counts all tokens that are asked, and W_K and W_V act on "
     "every one of them.", "a cached step"),
    (_D_is_a_head, "You take D for the width of a head. It is the width of the model, and a head is K = D / H wide.",
     "D is a head's"),
])]

_COMMON = ("multiply-adds", "factor 4", "no batch", "no output projection", "all of T", "all of S", "three of T",
           "no keys and values", "no projections", "each head projects to D", "one head's projections", "half",
           "no look", "T by T", "S by S", "each head D wide", "one head", "no width")
ATTENTION_COST_PAIRS = [  # of one value; two values are told apart anyway
    *pairs(_cost, {name: _OPERATIONS[name] for name in _COMMON}),
    *pairs(_cost, _WEIGHT_BYTES | _SIZES), *pairs(_cost, _CACHE_BYTES | _SIZES)]
