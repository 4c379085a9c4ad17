"""Files → batches: what people have is read and cut into what a model reads."""
