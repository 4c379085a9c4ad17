"""A corpus through a cluster: shards for any scheduler, and Ray."""

from clearhead.scale.cluster import answer_on_ray, translate
from clearhead.scale.shards import Answer, Chunk, Shard, answer_here, chunks_of, join

__all__ = [
    "Answer",
    "Chunk",
    "Shard",
    "answer_here",
    "answer_on_ray",
    "chunks_of",
    "join",
    "translate",
]
