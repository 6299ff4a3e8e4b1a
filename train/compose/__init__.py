"""The data engine: pairs with captions that are true, made from footage."""
