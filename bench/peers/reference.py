# SPDX-License-Identifier: MIT
"""The reference implementation (labml-nn) and the loops with which it samples.

Its models hold no state between calls: feedback, fast weights and causal re-feed the
whole text for each token, Transformer-XL feeds one token and keeps its memory. The loops
are written out here, because those of the package print, and its Transformer-XL script
does not import. Unlike there, no gradients are recorded, which is to its advantage.
"""

from . import Missing, repeat


def _names(checkpoint):
    """Our tensor name -> the reference's."""
    kind = checkpoint.config["architecture"]
    causal = kind == "causal"
    stack = "encoder" if causal else "transformer"
    attention = "self_attn" if kind in ("causal", "transformer_xl") else "attn"
    fixed = {
        "embed.weight": "src_embed.linear.weight" if causal else "src_embed.weight",
        "memory.mix": "transformer.weights",
        "memory.key.weight": "transformer.key.linear.weight",
        "memory.value.weight": "transformer.value.linear.weight",
        "norm.weight": f"{stack}.norm.weight",
        "norm.bias": f"{stack}.norm.bias",
        "head.weight": "generator.projection.weight" if causal else "generator.weight",
        "head.bias": "generator.projection.bias" if causal else "generator.bias",
    }
    parts = {
        "attn.norm": "norm_self_attn",
        "attn.query": f"{attention}.query.linear",
        "attn.key": f"{attention}.key.linear",
        "attn.value": f"{attention}.value.linear",
        "attn.gate": f"{attention}.interpolation_weight.0.linear",
        "attn.output": f"{attention}.output",
        "attn.relative_key": f"{attention}.key_pos_embeddings",
        "attn.relative_bias": f"{attention}.key_pos_bias",
        "attn.query_bias": f"{attention}.query_pos_bias",
        "ff.norm": "norm_ff",
        "ff.in": "feed_forward.layer1",
        "ff.out": "feed_forward.layer2",
    }
    names = {}
    for name in checkpoint.weights:
        if not name.startswith("layers."):
            names[name] = fixed[name]
            continue
        _, index, part = name.split(".", 2)
        base, suffix = part, ""
        if part not in parts:
            base, suffix = part.rsplit(".", 1)
            suffix = "." + suffix
        names[name] = f"{stack}.layers.{index}.{parts[base]}{suffix}"
    return names


def build(checkpoint, dropout=0.0):
    """Its model of this configuration, with weights of its own."""
    from labml_nn.transformers.feed_forward import FeedForward

    c = checkpoint.config
    d, heads, layers, vocab = c["d_model"], c["heads"], c["layers"], c["vocab"]
    feed_forward = FeedForward(d, c["d_ff"], dropout)
    kind = c["architecture"]
    if kind == "feedback":
        from labml_nn.transformers import feedback as fb
        from labml_nn.transformers.feedback.experiment import AutoregressiveModel

        attention = fb.FeedbackAttention(heads, d, dropout, is_kv_precomputed=checkpoint.shared)
        layer = fb.FeedbackTransformerLayer(d_model=d, attn=attention,
                                            feed_forward=feed_forward, dropout_prob=dropout)
        stack = (fb.FeedbackTransformerKV(layer, layers, d, heads) if checkpoint.shared
                 else fb.FeedbackTransformer(layer, layers))
        return AutoregressiveModel(vocab, d, stack)
    if kind == "fast_weights":
        from labml_nn.transformers import fast_weights as fw
        from labml_nn.transformers.fast_weights.experiment import AutoregressiveModel

        attention = fw.FastWeightsAttention(heads, d, dropout, fw.DPFP(nu=c["nu"]))
        layer = fw.FastWeightsAttentionTransformerLayer(
            d_model=d, attn=attention, feed_forward=feed_forward, dropout_prob=dropout)
        return AutoregressiveModel(vocab, d, fw.FastWeightsAttentionTransformer(layer, layers))
    if kind == "transformer_xl":
        from labml_nn.transformers import xl
        from labml_nn.transformers.fast_weights.experiment import AutoregressiveModel

        layer = xl.TransformerXLLayer(
            d_model=d, self_attn=xl.RelativeMultiHeadAttention(heads, d, dropout),
            feed_forward=feed_forward, dropout_prob=dropout)
        # Embedding and generator as in its script; `forward` is in ReferenceXl.
        return AutoregressiveModel(vocab, d, xl.TransformerXL(layer, layers))
    if c["position_kind"] != "sinusoidal" or not c["embed_scale"]:
        raise Missing("the reference's causal model has sinusoidal positions and a "
                      "scaled embedding: size SEED")
    from labml_nn import transformers as tr
    from labml_nn.transformers.basic.autoregressive_experiment import AutoregressiveTransformer
    from labml_nn.transformers.models import EmbeddingsWithPositionalEncoding

    layer = tr.TransformerLayer(
        d_model=d, self_attn=tr.MultiHeadAttention(heads, d, dropout), src_attn=None,
        feed_forward=feed_forward, dropout_prob=dropout)
    return AutoregressiveTransformer(tr.Encoder(layer, layers),
                                     EmbeddingsWithPositionalEncoding(d, vocab),
                                     tr.Generator(vocab, d))


def load(model, checkpoint):
    names = _names(checkpoint)
    state = model.state_dict()
    for ours, theirs in names.items():
        value = checkpoint.weights[ours]
        if theirs not in state or state[theirs].shape != value.shape:
            raise Missing(f"its module has no {theirs} of shape {list(value.shape)}")
        state[theirs] = value
    model.load_state_dict(state)


class Reference:
    """Re-feeds the text."""

    def __init__(self, checkpoint, prompt, threads):
        try:
            import labml_nn  # noqa: F401
            import torch

            self.model = build(checkpoint)
        except ImportError as error:
            raise Missing(f"cannot import: {error}") from error
        self.torch = torch
        self.threads = threads
        self.name = "labml-nn 0.5.1 sampling loop"
        load(self.model, checkpoint)
        self.model.eval()
        self.prompt = prompt
        if checkpoint.shared and len(prompt) >= 512:
            raise Missing("its stack of keys and values holds 512 tokens")

    def forward(self, tokens):
        with self.torch.no_grad():
            output, *_ = self.model(self.torch.tensor(tokens).unsqueeze(-1))
        return output[-1, 0]

    def logits(self, tokens):
        self.torch.set_num_threads(self.threads)
        return self.forward(tokens).numpy()

    def round(self, seconds):
        """The token after the prompt, over and over: the text does not grow."""
        self.torch.set_num_threads(self.threads)
        text = self.prompt + self.prompt[:1]
        return repeat(seconds, lambda: int(self.forward(text).argmax(dim=-1)))


class ReferenceXl(Reference):
    """Feeds one token, keeps the memory."""

    def __init__(self, checkpoint, prompt, threads):
        super().__init__(checkpoint, prompt, threads)
        self.mem_len = checkpoint.config["mem_len"]
        self.memory = None  # after the prompt

    def feed(self, tokens, memory):
        torch = self.torch
        count = len(tokens)
        seen = len(memory[0]) if memory else 0
        causal = torch.tril(torch.ones(count, count, dtype=torch.bool)).unsqueeze(-1)
        mask = torch.cat((causal.new_ones(count, seen, 1), causal), 1)
        with torch.no_grad():
            x = self.model.src_embed(torch.tensor(tokens).unsqueeze(-1))
            x, new = self.model.transformer(x, memory, mask)
            logits = self.model.generator(x)
            if memory:
                new = [torch.cat(pair) for pair in zip(memory, new)]
            return logits[-1, 0], [m[-self.mem_len:] for m in new]

    def feed_all(self, tokens):
        self.torch.set_num_threads(self.threads)
        memory = []
        for token in tokens:
            logits, memory = self.feed([token], memory)
        return logits, memory

    def logits(self, tokens):
        return self.feed_all(tokens)[0].numpy()

    def round(self, seconds):
        self.torch.set_num_threads(self.threads)
        if self.memory is None:
            _, self.memory = self.feed_all(self.prompt)
        return repeat(seconds, lambda: int(
            self.feed(self.prompt[:1], self.memory)[0].argmax(dim=-1)))


def make(task, threads):
    task.require_one_session()
    xl = task.checkpoint.config["architecture"] == "transformer_xl"
    return (ReferenceXl if xl else Reference)(task.checkpoint, task.prompt, threads)
