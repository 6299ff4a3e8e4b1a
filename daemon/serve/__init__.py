"""The page for people: what was narrated as it comes, day by day, and what people say of it."""
