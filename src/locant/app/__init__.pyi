from locant.app.comparison_report import comparison_report as comparison_report
from locant.app.comparison_report import write_comparison_page as write_comparison_page
from locant.app.context_report import context_report as context_report
from locant.app.context_report import write_context_figures as write_context_figures
from locant.app.errata import ERRATA_FORMATS as ERRATA_FORMATS
from locant.app.errata import render_errata as render_errata
from locant.app.errata import write_errata as write_errata
from locant.app.gallery import render_gallery as render_gallery
from locant.app.gallery import write_gallery as write_gallery
from locant.app.report import Code as Code
from locant.app.report import Fact as Fact
from locant.app.report import Facts as Facts
from locant.app.report import Figure as Figure
from locant.app.report import Report as Report
from locant.app.report import Section as Section
from locant.app.report import Table as Table
from locant.app.report import Text as Text
from locant.app.report import TranslationExample as TranslationExample
from locant.app.report import Translations as Translations
from locant.app.report import render_report as render_report
from locant.app.report import write_report as write_report
from locant.app.run_report import run_report as run_report
from locant.app.run_report import write_run_report as write_run_report
from locant.app.web_page import export_web as export_web

__all__ = ["export_web", "write_gallery", "write_run_report"]
