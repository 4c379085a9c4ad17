"""A corpus through a cluster: shards for any scheduler, and Ray."""

from clearhead.scale.chunks import Chunk, chunks_of
from clearhead.scale.cluster import answer_on_ray, translate
from clearhead.scale.shards import Answer, Shard, answer_here, join

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
