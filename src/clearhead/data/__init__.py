"""Files → batches: reading what people have, and cutting it into what the model eats, with nothing lost on the way."""
