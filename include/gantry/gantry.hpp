#pragma once  // gantry/gantry.hpp: all but gemm, schedule/*, queues of work, images, decisions.

#include <gantry/channel.hpp>
#include <gantry/channel/async.hpp>
#include <gantry/channel/inbox.hpp>
#include <gantry/channel/options.hpp>
#include <gantry/channel/request.hpp>
#include <gantry/channel/status.hpp>
#include <gantry/device/device.hpp>
#include <gantry/device/kernel.hpp>
#include <gantry/engine.hpp>
#include <gantry/engine/file_io.hpp>
#include <gantry/engine/policy.hpp>
#include <gantry/link.hpp>
#include <gantry/memory.hpp>
#include <gantry/memory/allocator.hpp>
#include <gantry/pipeline/pipeline.hpp>
#include <gantry/pipeline/stage.hpp>
#include <gantry/run/stage.hpp>
#include <gantry/runtime.hpp>
#include <gantry/types.hpp>
