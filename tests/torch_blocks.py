"""Torch's transformer layers with the weights of our blocks, for tests that compare the two."""

from torch import nn

from course_utils.transformer_blocks import DecoderBlock, EncoderBlock

OURS = {  # torch's names -> ours
    "self_attn.in_proj_": "attention.qkv.",
    "self_attn.out_proj": "attention.out",
    "multihead_attn.in_proj_": "cross.qkv.",
    "multihead_attn.out_proj": "cross.out",
    "linear1": "feed_forward.0",
    "linear2": "feed_forward.2",
}
NORMS = {
    EncoderBlock: ("around_attention", "around_feed_forward"),
    DecoderBlock: ("around_attention", "around_cross", "around_feed_forward"),
}


def parameters(block: EncoderBlock) -> dict[str, nn.Parameter]:
    """The parameters of a block under torch's names."""
    own = dict(block.named_parameters())
    ours = OURS | {f"norm{i}": f"{name}.norm" for i, name in enumerate(NORMS[type(block)], 1)}
    found = {}
    for theirs, name in ours.items():
        found |= {theirs + key.removeprefix(name): p for key, p in own.items() if key.startswith(name)}
    assert len(found) == len(own)
    return found


def torchs_layer(block: EncoderBlock, norm: str) -> nn.Module:
    """nn.TransformerEncoderLayer or nn.TransformerDecoderLayer that computes what the block does."""
    kind = nn.TransformerDecoderLayer if isinstance(block, DecoderBlock) else nn.TransformerEncoderLayer
    attention, F = block.attention, block.feed_forward[0].out_features
    own = parameters(block)
    layer = kind(attention.d_model, attention.n_heads, F, dropout=0.0, batch_first=True, norm_first=norm == "pre")
    layer.to(own["linear1.weight"].dtype).load_state_dict(own)
    return layer
