// What nearly every test includes, compiled once for all of them. Each test includes what it needs all the same.
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
