package main

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ibrun/ibrun/internal/freeport"
)

// race prevents programs with the race detector, which the ranks use too, from waiting for a second when they exit.
const race = "atexit_sleep_ms=0"

// TestMain makes this binary act as ibrun, and as the ranks that ibrun starts. Ranks that wait sleep soon: other jobs, and the
// other nodes of their own, need the processors of this machine. The scripts, and TestIdle, have the default.
func TestMain(m *testing.M) {
	os.Setenv("GORACE", race)
	os.Setenv("IBRUN_POLL", "1ms")
	os.Setenv("UCX_NET_DEVICES", "lo") // programs of MPICH fail if a network device disappears while they start
	testscript.Main(parallelTests{m}, map[string]func(){
		"ibrun":     main,
		"rank":      func() { os.Exit(rank(os.Args[1:])) },
		"strangers": func() { os.Exit(strangers()) },
		"relay":     func() { os.Exit(relay()) },
	})
}

// parallelTests runs eight tests at a time unless -parallel says otherwise: most of the time they wait for processes.
type parallelTests struct{ *testing.M }

func (p parallelTests) Run() int {
	flag.Parse()
	if signal.Ignored(syscall.SIGHUP) { // as under nohup: a signal that is caught has its default action in the commands again
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		if err := f.Value.Set("8"); err != nil {
			panic(err)
		}
	}
	return p.M.Run()
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:   "testdata",
		Setup: setUp,
		Cmds:  map[string]func(*testscript.TestScript, bool, []string){"code": code},
	})
}

// setUp sets the cache directories of the go command and of ibrun, and a port for the rendezvous of nodes.
func setUp(env *testscript.Env) error {
	cache, err := goCache()
	if err != nil {
		return err
	}
	env.Setenv("GOCACHE", cache)
	env.Setenv("XDG_CACHE_HOME", env.WorkDir+"/cache")
	env.Setenv("GORACE", race)
	ibrun, err := exec.LookPath("ibrun")
	env.Setenv("IBRUN", ibrun)
	env.Setenv("BIN", filepath.Dir(ibrun))
	if err != nil {
		return err
	}
	port, err := freeport.TCP()
	env.Setenv("PORT", strconv.Itoa(port))
	return err
}

// goCache returns the cache directory of the go command.
func goCache() (string, error) {
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	return strings.TrimSpace(string(out)), err
}

// code runs a command that must exit with the given code: code 2 ibrun -n 0 rank.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code NUMBER COMMAND [ARGUMENT...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
