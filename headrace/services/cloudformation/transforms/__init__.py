"""Transforms, which rewrite a template before it is read: SAM, language extensions, includes, macros."""
