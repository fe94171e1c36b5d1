#include <gtest/gtest.h>

namespace gantry {}
