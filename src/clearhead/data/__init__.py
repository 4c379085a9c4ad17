"""Files → batches: reading what people have and cutting it into what a model reads, nothing lost."""
