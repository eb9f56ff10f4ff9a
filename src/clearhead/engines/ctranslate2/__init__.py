"""An exported model run by CTranslate2: the engine, its search, and the folder of an export."""
