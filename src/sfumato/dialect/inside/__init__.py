"""SQL inside a private SELECT: each step unit-local, compiled to the plain data of `query`."""
