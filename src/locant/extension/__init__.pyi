from locant.extension.inspect.diagnosis import Diagnosis as Diagnosis
from locant.extension.inspect.engine_configs import ENGINES as ENGINES
from locant.extension.inspect.engine_configs import to_engine_config as to_engine_config
from locant.extension.inspect.inspection import Inspection as Inspection
from locant.extension.inspect.inspection import inspect_model as inspect_model
