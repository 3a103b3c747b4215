//! Build tools without a package manager of their own: make and CMake, and the go command.

use super::*;

const PROGRAM: &str = "#include <stdio.h>\nint main(void) { puts(\"built\"); return 0; }\n";

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn make_builds_and_cleans_as_in_a_shell() {
    let makefile = "all: app\napp: app.o\n\t$(CC) -o $@ $^\ncheck: app\n\t./app | grep -q built\n\
                    clean:\n\trm -f app app.o\nbroken:\n\texit 3\n";
    let workshop = Workshop::new(&[("Makefile", makefile), ("app.c", PROGRAM)]).with("make").with("cc");
    workshop.both("make -j2 && ./app");
    workshop.same("ls; make -q && ./app");
    workshop.both("make check && make -s clean");
    workshop.both("make broken");
    workshop.same("ls -A --ignore=.orchestration");
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn cmake_configures_builds_and_tests_as_in_a_shell() {
    let lists = "cmake_minimum_required(VERSION 3.10)\nproject(app C)\nenable_testing()\nadd_executable(app app.c)\n\
                 add_test(NAME runs COMMAND app)\n";
    let workshop = Workshop::new(&[("CMakeLists.txt", lists), ("app.c", PROGRAM)]).with("cmake").with("cc");
    workshop.both("cmake -S . -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build -j2");
    let told = workshop.both("ctest --test-dir build && ./build/app");
    assert!(told.contains("100% tests passed"), "{told}");
    workshop.same("ls build && ./build/app");
    workshop.both(
        "cmake --install build --prefix $PWD/installed && cmake --build build --target clean && ls build",
    );
    workshop.both("cmake --build build --target no-such-target");
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn go_builds_tests_and_formats_as_in_a_shell() {
    let workshop = Workshop::new(&[
        ("go.mod", "module example.org/app\n\ngo 1.19\n\nrequire example.org/lib v0.0.0\n\nreplace example.org/lib => ./lib\n"),
        ("main.go", "package main\n\nimport (\n\t\"fmt\"\n\n\t\"example.org/lib\"\n)\n\nfunc main() { fmt.Println(lib.Answer()) }\n"),
        ("lib/go.mod", "module example.org/lib\n\ngo 1.19\n"),
        ("lib/lib.go", "package lib\n\nfunc Answer() int { return 42 }\n"),
        ("lib/lib_test.go", "package lib\n\nimport \"testing\"\n\nfunc TestAnswer(t *testing.T) {\n\tif Answer() != 42 {\n\t\tt.Fatal()\n\t}\n}\n"),
    ])
    .having("go version");
    let told = workshop.both("go build -o app . && ./app && go vet . && (cd lib && go test .)");
    assert!(told.contains("42"), "{told}");
    workshop.same("ls && ./app");
    workshop.both(
        "printf 'package main\\nfunc unused( ) { }\\n' >unused.go && gofmt -l . && gofmt -w . && go run .",
    );
    workshop.same("cat unused.go go.mod");
    workshop.both("sed -i 's/return 42/return 41/' lib/lib.go && cd lib && go test .");
    workshop.both("echo 'func' >>main.go && go build .");
}
