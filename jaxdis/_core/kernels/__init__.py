"""Primitives that have more than one form: what they compute, and how CPUs and accelerators compute it.

Metrics and networks say what is computed; registers, caches and chunks are named here. Each primitive is a
:class:`~jaxdis._core.platforms.Kernel`. One test compares all their forms with their references.
"""
