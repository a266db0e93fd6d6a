from locant.documents.formats import FORMATS as FORMATS
from locant.documents.formats import Document as Document
from locant.documents.formats import DocumentOptions as DocumentOptions
from locant.documents.formats import Format as Format
from locant.documents.formats import find_format as find_format
from locant.documents.formats import format_of as format_of
from locant.documents.passages import Mark as Mark
from locant.documents.passages import Text as Text
from locant.documents.translate import open_documents as open_documents
from locant.documents.translate import translate_document as translate_document
from locant.documents.translate import translate_file as translate_file
from locant.documents.translate import write_documents as write_documents

__all__ = ["DocumentOptions", "translate_document", "translate_file"]
