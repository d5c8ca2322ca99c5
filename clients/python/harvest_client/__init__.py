"""A client of Harvest's API. Everything that it sends and receives has a type in `harvest_client.models`."""

from . import models
from .client import Harvest, Problem

__all__ = ["Harvest", "Problem", "models"]
