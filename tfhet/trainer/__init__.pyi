from .settings import PACKAGES as PACKAGES, Settings as Settings
