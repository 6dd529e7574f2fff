"""What is compared: models of the course beside torch's own layers, and beside the straightforward form of themselves.

Both sides of a case have the same parameters and compute the same function, which `Case.check` makes sure of; both
train with the same optimizer.  They differ in where dropout acts: torch's layers have more places for it, attention
weights and the inner numbers of the feed-forward network.
"""

import re
import warnings
from collections.abc import Callable
from functools import partial, reduce
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_utils.attention import padding_mask
from course_utils.corpora import EOS, PAD
from course_utils.decoding import evaluation, free_running_logits
from course_utils.recurrent import RecurrentLM
from course_utils.seq2seq import shift_right
from course_utils.seq2seq_attention import AttentionEncoderDecoder
from course_utils.transformer import State, Transformer, TransformerLM
from course_utils.transformer_blocks import Embedding, KeyValues

causal = nn.Transformer.generate_square_subsequent_mask  # T -> (T, T), -inf where a token may not be attended to


class Sizes(NamedTuple):
    """Those of the targets."""

    batch: int = 64
    length: int = 32  # of source and target
    lm_length: int = 64  # of what a language model reads
    vocab: int = 1000
    d_model: int = 128
    n_heads: int = 4
    d_ff: int = 512
    layers: int = 2
    sentences: int = 16  # decoded at once
    written: int = 64  # tokens of each
    dropout: float = 0.1


class Contender(NamedTuple):
    """One side of a case.  logits(): what it computes; run(): what is timed."""

    model: nn.Module
    logits: Callable[[], Tensor]
    run: Callable[[], Any]


class Case(NamedTuple):
    """other: what ours is compared with; target: the largest ratio of times wanted, ours to theirs.

    task: makes a contender of a model; ours, theirs: make the models.
    renaming: what to replace in our names of parameters to get theirs.
    """

    name: str
    other: str
    target: float
    task: Callable[[nn.Module, Sizes], Contender]
    ours: Callable[[Sizes], nn.Module]
    theirs: Callable[[Sizes], nn.Module]
    renaming: tuple[tuple[str, str], ...] = ()

    def contender(self, side: str, sizes: Sizes) -> Contender:
        """One side, "ours" or "theirs", ready to run."""
        torch.manual_seed(0)
        return self.task(getattr(self, side)(sizes), sizes)

    def their_name(self, name: str) -> str:
        """Their name of our parameter."""
        return reduce(lambda name, pair: re.sub(*pair, name), self.renaming, name)

    def check(self, ours: Contender, theirs: Contender) -> None:
        """Give both the same weights.  Raises ValueError unless they compute the same logits without dropout."""
        theirs.model.load_state_dict({self.their_name(name): p for name, p in ours.model.state_dict().items()})
        with evaluation(ours.model), evaluation(theirs.model):
            difference = (ours.logits() - theirs.logits()).abs().max().item()
        if not difference < 1e-4:
            raise ValueError(f"{self.name}: expected the same logits from both sides, they differ by {difference:.2g}")


# What is timed


def translate(model: nn.Module, sizes: Sizes) -> Contender:
    """A training step of a model of source and target."""
    source, target = (sequences(sizes.batch, sizes.length, sizes.vocab, seed) for seed in (1, 2))
    target_in = shift_right(target)
    return training_step(model, lambda: model(source, target_in), target)


def go_on(model: nn.Module, sizes: Sizes) -> Contender:
    """A training step of a language model."""
    tokens = sequences(sizes.batch, sizes.lm_length + 1, sizes.vocab, seed=1)
    return training_step(model, lambda: model(tokens[:, :-1])[0], tokens[:, 1:])


def write(model: nn.Module, sizes: Sizes) -> Contender:
    """Greedy decoding, which goes on after <eos>, so that the number of tokens is fixed."""
    source = sequences(sizes.sentences, sizes.length, sizes.vocab, seed=1)
    return Contender(model, *2 * [lambda: free_running_logits(model, source, sizes.written)])


def training_step(model: nn.Module, logits: Callable[[], Tensor], target: Tensor) -> Contender:
    """Loss, gradient and an update by fused Adam."""
    optimizer = torch.optim.Adam(model.parameters(), fused=True)

    def run() -> None:
        optimizer.zero_grad()
        F.cross_entropy(logits().flatten(0, 1), target.flatten(), ignore_index=PAD).backward()
        optimizer.step()

    return Contender(model, logits, run)


def sequences(rows: int, length: int, vocab: int, seed: int) -> Tensor:
    """Random ids (rows, length): tokens, <eos>, pads; the first row is full, the others at least to three quarters."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(EOS + 2, vocab, (rows, length), generator=generator)
    end = torch.randint(length * 3 // 4, length, (rows, 1), generator=generator)
    end[0] = length - 1
    return ids.masked_fill(torch.arange(length) == end, EOS).masked_fill(torch.arange(length) > end, PAD)


# Ours


def transformer(s: Sizes) -> Transformer:
    return Transformer(s.vocab, s.vocab, s.d_model, s.n_heads, s.d_ff, s.layers, s.layers, s.dropout)


def transformer_lm(s: Sizes) -> TransformerLM:
    return TransformerLM(s.vocab, s.d_model, s.n_heads, s.d_ff, s.layers, s.dropout)


def lstm_lm(s: Sizes) -> RecurrentLM:
    return RecurrentLM(s.vocab, s.d_model, s.d_model, cell="lstm")


def lstm_lm_by_hand(s: Sizes) -> RecurrentLM:
    model = lstm_lm(s)
    model.rnn = LSTMByHand(s.d_model, s.d_model, batch_first=True)
    return model


class LSTMByHand(nn.LSTM):
    """The formulas of an LSTM, step by step; what the inputs add to the gates is computed before, in one product."""

    def forward(self, x: Tensor, state: None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        h = c = x.new_zeros(len(x), self.hidden_size)
        added = F.linear(x.transpose(0, 1), self.weight_ih_l0, self.bias_ih_l0 + self.bias_hh_l0)  # (T, B, 4 d_h)
        hs = []
        for added_t in added.unbind():
            i, f, g, o = torch.addmm(added_t, h, self.weight_hh_l0.T).chunk(4, dim=1)  # (B, d_h) each
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            hs.append(h)
        return torch.stack(hs, dim=1), (h[None], c[None])  # (B, T, d_h), (1, B, d_h) each


# Theirs


class TorchTransformer(nn.Module):
    """torch.nn.Transformer between embeddings and an output layer that is tied to the target's."""

    def __init__(self, s: Sizes):
        super().__init__()
        self.embed_source, self.embed_target = torch_embedding(s), torch_embedding(s)
        sizes = (s.d_model, s.n_heads, s.layers, s.layers, s.d_ff, s.dropout)
        with warnings.catch_warnings():  # of nested tensors, which don't go with normalization first
            warnings.filterwarnings("ignore", "enable_nested_tensor")
            self.transformer = nn.Transformer(*sizes, batch_first=True, norm_first=True)

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        pads = source == PAD  # (B, S), True = may not be attended to: torch's layers have it the other way round
        x, y = self.embed_source(source), self.embed_target(target_in)
        masks = {"src_key_padding_mask": pads, "memory_key_padding_mask": pads, "tgt_mask": causal(y.shape[1])}
        return self.embed_target.logits(self.transformer(x, y, **masks, tgt_is_causal=True))


class TorchTransformerLM(nn.Module):
    """torch.nn.TransformerEncoder with a causal mask, between an embedding and an output layer that is tied to it."""

    def __init__(self, s: Sizes):
        super().__init__()
        self.embed = torch_embedding(s)
        sizes = (s.d_model, s.n_heads, s.d_ff, s.dropout)
        layer = nn.TransformerEncoderLayer(*sizes, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, s.layers, nn.LayerNorm(s.d_model), enable_nested_tensor=False)

    def forward(self, tokens: Tensor) -> tuple[Tensor, None]:
        x = self.encoder(self.embed(tokens), mask=causal(tokens.shape[1]), is_causal=True)
        return self.embed.logits(x), None


class TorchLSTM(nn.Module):
    """torch.nn.LSTM between an embedding and an output layer."""

    def __init__(self, s: Sizes):
        super().__init__()
        self.embed = nn.Embedding(s.vocab, s.d_model, padding_idx=PAD)
        self.rnn = nn.LSTM(s.d_model, s.d_model, batch_first=True)
        self.out = nn.Linear(s.d_model, s.vocab)

    def forward(self, tokens: Tensor) -> tuple[Tensor, None]:
        return self.out(self.rnn(self.embed(tokens))[0]), None


class AllInTheLoop(AttentionEncoderDecoder):
    """Each step projects the keys, looks, and computes its logits."""

    def _decode(self, tokens: Tensor, state: Any) -> tuple[Tensor, Tensor, Any]:
        steps = []
        for token in tokens.split(1, dim=1):  # (B, 1)
            state = state._replace(keys=self.score.project(state.values))
            *step, state = super()._decode(token, state)
            steps.append(step)
        return *(torch.cat(parts, dim=1) for parts in zip(*steps, strict=True)), state


class Uncached(nn.Module):
    """A transformer that keeps the encoded source, but no keys and values: at each step it reads all tokens again."""

    def __init__(self, s: Sizes):
        super().__init__()
        self.model = transformer(s)

    def start(self, source: Tensor) -> tuple[Tensor, ...]:
        return self.model.encode(source), padding_mask(source)[:, None], source[:, :0]

    def step(self, token: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        encoded, mask, tokens = state
        tokens = torch.cat([tokens, token[:, None]], dim=1)  # (B, T)
        memory = tuple(KeyValues(*block.cross.keys_values(encoded)) for block in self.model.decoder)
        logits, _ = self.model.decode(tokens, State(memory=memory, mask=mask))  # (B, T, V)
        return logits[:, -1], (encoded, mask, tokens)


def torch_embedding(s: Sizes) -> Embedding:
    """The embedding of the course with torch's dropout."""
    embedding = Embedding(s.vocab, s.d_model, "sinusoidal", max(s.length, s.lm_length), 0.0)
    embedding.dropout = nn.Dropout(s.dropout)
    return embedding


TORCHS_NAMES = (  # (a pattern in the names of our parameters, what torch's layers have there)
    (r"^(encoder|decoder)\.", r"transformer.\1.layers."), (r"^(encoder|decoder)_norm", r"transformer.\1.norm"),
    (r"^blocks\.", "encoder.layers."), (r"^norm\.", "encoder.norm."),
    (r"around_attention\.norm", "norm1"), (r"around_cross\.norm", "norm2"),
    (r"(decoder.*)around_feed_forward\.norm", r"\1norm3"), (r"around_feed_forward\.norm", "norm2"),
    (r"\.attention\.", ".self_attn."), (r"\.cross\.", ".multihead_attn."),
    (r"\.qkv\.", ".in_proj_"), (r"\.out\.", ".out_proj."),
    (r"feed_forward\.0", "linear1"), (r"feed_forward\.2", "linear2"),
)  # fmt: skip


def loop_case(attention: str, query: str) -> Case:
    def make(model: type[AttentionEncoderDecoder], s: Sizes) -> nn.Module:
        return model(s.vocab, s.vocab, s.d_model, s.d_model, attention, query)

    ours, theirs = partial(make, AttentionEncoderDecoder), partial(make, AllInTheLoop)
    return Case(f"recurrent-{attention}", "all in the loop", 0.65, translate, ours, theirs)


CASES = (
    Case("encoder-decoder", "nn.Transformer", 0.75, translate, transformer, TorchTransformer, TORCHS_NAMES),
    Case("decoder-only", "nn.TransformerEncoder", 0.75, go_on, transformer_lm, TorchTransformerLM, TORCHS_NAMES),
    loop_case("additive", "previous"),
    loop_case("dot", "current"),
    Case("lstm", "nn.LSTM", 1.05, go_on, lstm_lm, TorchLSTM),
    Case("lstm-by-hand", "nn.LSTM", 1.5, go_on, lstm_lm_by_hand, TorchLSTM),
    Case("greedy", "without cache", 0.15, write, transformer, Uncached, (("^", "model."),)),
)
