from locant.rotary_configs.identify.identify import identify as identify
from locant.rotary_configs.identify.result import Identification as Identification
