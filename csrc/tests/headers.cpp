// For idcwh_test_headers; see CMakeLists.txt.
