"""Private helpers without a room of their own. Nothing here is part of the public API."""
