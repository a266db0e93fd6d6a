from locant.app.gallery.catalogue import ENTRIES as ENTRIES
from locant.app.gallery.catalogue import Entry as Entry
from locant.app.gallery.catalogue import draw as draw
from locant.app.gallery.page import FORMATS as FORMATS
from locant.app.gallery.page import render_page as render_page
from locant.app.gallery.page import write_figures as write_figures
from locant.app.gallery.page import write_gallery as write_gallery
