// The headers that nearly every test includes, compiled once. Each test nevertheless includes what it needs.
#pragma once

#include <idcwh/database.hpp>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>
