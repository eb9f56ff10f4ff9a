"""CTranslate2: the export of a translator, its equality check, and the engine that runs it."""
