#pragma once  // gantry/gantry.hpp: all public C++ headers.

#include <gantry/bridge.hpp>
#include <gantry/call.hpp>
#include <gantry/channel.hpp>
#include <gantry/collectives.hpp>
#include <gantry/decision.hpp>
#include <gantry/device.hpp>
#include <gantry/engine.hpp>
#include <gantry/file.hpp>
#include <gantry/gemm.hpp>
#include <gantry/group.hpp>
#include <gantry/image.hpp>
#include <gantry/kernel.hpp>
#include <gantry/link.hpp>
#include <gantry/memory.hpp>
#include <gantry/pipeline.hpp>
#include <gantry/plan.hpp>
#include <gantry/product.hpp>
#include <gantry/runtime.hpp>
#include <gantry/shape.hpp>
#include <gantry/snapshot.hpp>
#include <gantry/stage.hpp>
#include <gantry/types.hpp>
