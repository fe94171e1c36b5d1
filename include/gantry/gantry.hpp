#pragma once  // gantry/gantry.hpp: everything at once.

#include <gantry/async.hpp>
#include <gantry/channel.hpp>
#include <gantry/device.hpp>
#include <gantry/engine.hpp>
#include <gantry/file_io.hpp>
#include <gantry/inbox.hpp>
#include <gantry/kernel.hpp>
#include <gantry/memory.hpp>
#include <gantry/pipeline.hpp>
#include <gantry/pipeline_stage.hpp>
#include <gantry/policy.hpp>
#include <gantry/registrars.hpp>
#include <gantry/request.hpp>
#include <gantry/runtime.hpp>
#include <gantry/status.hpp>
#include <gantry/types.hpp>
