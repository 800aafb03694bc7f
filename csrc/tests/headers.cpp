// The source file of idcwh_test_headers; see CMakeLists.txt.
