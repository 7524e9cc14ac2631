package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/soft-roce/vm/internal/qemu"
)

// needGuests skips the test unless IBRUN_VM is set. Such a test boots guests: it needs QEMU, downloads a kernel and takes several
// seconds.
func needGuests(t *testing.T) {
	t.Helper()
	if os.Getenv("IBRUN_VM") == "" {
		t.Skip("boots virtual machines: set IBRUN_VM=1")
	}
}

// program builds vm and returns its path.
func program(t *testing.T) string {
	t.Helper()
	needGuests(t)
	vm := filepath.Join(t.TempDir(), "vm")
	if out, err := exec.Command("go", "build", "-o", vm, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return vm
}

// wantCode runs a command and returns its output.
func wantCode(t *testing.T, code int, cmd *exec.Cmd) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d; stdout\n%s\nstderr\n%s", got, code, &out, &errs)
	}
	return out.String(), errs.String()
}

func wantText(t *testing.T, name, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is not in %s:\n%s", p, name, text)
		}
	}
}

// One boot tests every property of one node. It starts with a cached result for KVM, which may be wrong.
func TestGuestOutput(t *testing.T) {
	vm := program(t)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	accelCache := filepath.Join(cache, "ibrun", "vm", "accel")
	text, err := json.Marshal(accelResult{qemu.KVM, bootID(), time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(accelCache), 0o700), os.WriteFile(accelCache, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join("/tmp", fmt.Sprintf("ibrun-vm-test-%d", os.Getpid()))
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(mark)

	binary := make([]byte, 3<<20)
	for i := range binary {
		binary[i] = byte(i * i >> 5)
	}
	cmd := exec.Command(vm, "-v", "--", "sh", "-c", `
		tee /tmp/in; cat /tmp/in >&2
		{
			ibv_devinfo -d rxe0 | grep PORT_ACTIVE
			id -u
			env | grep -E '^IBRUN_(LIVE|VM)' | sort
			ibrun version
			ls `+mark+` || echo /tmp is mine
			touch /usr/new || echo the host is safe
			ibrun soft-roce show; ibrun soft-roce down rxe0; ibrun soft-roce show
			ibrun soft-roce up eth0; ibrun soft-roce up nosuch0 || echo code $?
			vm exec 1 true || echo code $?
			pwd
		} 2>&1
		exit 42`)
	cmd.Stdin = bytes.NewReader(binary)
	out, errs := wantCode(t, 42, cmd)
	said, ok := strings.CutPrefix(out, string(binary))
	if !ok {
		t.Error("standard output is not what was written")
	}
	// vm prints its steps after the standard error of the command.
	if _, rest, ok := strings.Cut(errs, string(binary)); !ok || !strings.Contains(rest, "has ended") {
		t.Error("standard error is not what was written")
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, "the output of the guest", said,
		"PORT_ACTIVE (4)\n0\nIBRUN_LIVE=1\n", "IBRUN_VM_ADDRS=10.77.0.1\nIBRUN_VM_NODE=0\nIBRUN_VM_NODES=1\nibrun ",
		"/tmp is mine\n", "the host is safe\n", "rxe0  eth0    ACTIVE\nrxe0\n", "no such network device", "code 1\n",
		"no node 1", "code 125\n", here+"\n")
	if got := cachedAccel(accelCache); !mayHaveKVM() {
		t.Logf("there is no /dev/kvm")
	} else if kvm := !strings.Contains(errs, "does not work"); got == qemu.KVM != kvm {
		t.Errorf("hardware virtualisation works: %v; cached is %q", kvm, got)
	}
}

// The network of this test does not lose packets: ibv_rc_pingpong retries without limit, so it never ends if the last
// acknowledgement of a peer that has ended is lost.
func TestGuestTwoNodes(t *testing.T) {
	vm := program(t)
	out, errs := wantCode(t, 5, exec.Command(vm, "-nodes", "2", "-netem", "delay 1ms duplicate 1%", "--", "sh", "-c", `
		echo of node 0
		vm exec 1 sh -c 'echo of $IBRUN_VM_NODE; hostname; tc qdisc show dev eth0; echo aside >&2'
		vm exec -raw 1 printf 'a\0b'; echo
		for code in 1 2 3; do vm exec 1 sh -c "exit $code" & echo $code $!; wait $! || echo = $?; done
		vm exec 1 sleep 1000 & sleep 0.2; kill -9 $!; wait $!
		while vm exec -raw 1 pgrep -f 'sleep 1000' >/dev/null; do sleep 0.1; done; echo and it is gone
		head -c 1000000 /dev/zero | vm exec -raw 1 wc -c
		vm exec 1 ibv_rc_pingpong -d rxe0 -g 1 -n 100 >/dev/null & server=$!
		until vm exec -raw 1 grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done
		ibv_rc_pingpong -d rxe0 -g 1 -n 100 10.77.0.2 | grep 'iters in' && wait $server && echo both are well
		vm exec 1 sh -c 'exit 5'`))
	wantText(t, "standard output", out, "of node 0\n[n1] of 1\n[n1] n1\n[n1] qdisc netem", " delay 1ms duplicate 1%",
		"\na\x00b\n", "= 1\n", "= 2\n", "= 3\n", "and it is gone\n", "\n1000000\n", "100 iters in ", "both are well\n")
	wantText(t, "standard error", errs, "[n1] aside\n")
}

func TestGuestTimeout(t *testing.T) {
	vm := program(t)
	_, errs := wantCode(t, codeTimeout, exec.Command(vm, "-timeout", "10s", "--", "sleep", "1000"))
	wantText(t, "standard error", errs, "sleep did not end within 10s")
}

func TestGuestPanic(t *testing.T) {
	vm := program(t)
	_, errs := wantCode(t, codeFailed, exec.Command(vm, "--", "sh", "-c", "echo c >/proc/sysrq-trigger; sleep 1000"))
	wantText(t, "standard error", errs,
		"node 0 failed: Kernel panic - not syncing: sysrq triggered crash; the end of its console:\n")
}

// When vm ends for any reason, its guest ends too. Its files are removed immediately, or when the next guest starts.
func TestGuestLeavesNothing(t *testing.T) {
	vm := program(t)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		cmd := exec.Command(vm, "--", "sh", "-c", "echo up; sleep 1000")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
			t.Fatalf("the guest wrote %q, %v", line, err)
		}
		guests := children(t, cmd.Process.Pid)
		if len(guests) == 0 {
			t.Fatal("vm has no child")
		}
		cmd.Process.Signal(sig)
		cmd.Wait()
		if got, want := cmd.ProcessState.ExitCode(), codeSignal+int(sig); sig != syscall.SIGKILL && got != want {
			t.Errorf("%v: exit code %d, want %d", sig, got, want)
		}
		for _, pid := range guests {
			waittest.Until(t, fmt.Sprintf("%v: the guest, process %s, ends", sig, pid), func() bool { return !running(pid) })
		}
	}
	wantCode(t, 0, exec.Command(vm, "--", "true"))
	runs, err := filepath.Glob(filepath.Join(cache, "ibrun", "vm", "runs", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range runs { // other runs may be active
		if f, err := lock(dir, unix.LOCK_EX|unix.LOCK_NB); err == nil {
			f.Close()
			t.Errorf("%s is left from a run that has ended", dir)
		}
	}
}

// children lists the processes that a process started.
func children(t *testing.T, pid int) []string {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.Fields(string(text))...)
	}
	return all
}

// running reports whether a process has not ended. A zombie has ended.
func running(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	_, state, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}

// Another project runs its tests by `go run` of a version, in a module that does not require this one.
func TestGuestOfAnotherProject(t *testing.T) {
	needGuests(t)
	const version = "v0.0.1"
	proxy := publish(t, version)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/theirs\n\ngo 1.26\n",
		"good/good_test.go": `package good

import (
	"os"
	"testing"
)

func TestDevice(t *testing.T) {
	if _, err := os.Stat("/sys/class/infiniband/rxe0"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("testdata/here"); err != nil {
		t.Fatal(err)
	}
}
`,
		"good/testdata/here": "",
		"bad/bad_test.go":    "package bad\n\nimport \"testing\"\n\nfunc TestBad(t *testing.T) { t.Error(\"as it should\") }\n",
		"none/none.go":       "package none\n",
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "run", module+"/soft-roce/vm@"+version, "--", "go", "test", "-run", "Test", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY="+proxy, "GONOSUMDB="+module, "GOFLAGS=-modcacherw", "GOMODCACHE="+t.TempDir())
	out, errs := wantCode(t, 1, cmd)
	wantText(t, "standard output", out, "as it should", "FAIL\texample.com/theirs/bad\t", "ok  \texample.com/theirs/good\t",
		"?   \texample.com/theirs/none\t[no test files]\n", "\nFAIL\n")
	wantText(t, "standard error", errs, "exit status 1\n") // of go run
}

// publish makes a module proxy with this source as the given version, and with all modules in the cache of this machine.
func publish(t *testing.T, version string) string {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	root, dir := moduleRoot(here), t.TempDir()
	at := filepath.Join(dir, module, "@v")
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(at, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(file)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() && path != root && moduleRoot(path) == path: // another module
			return filepath.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := w.Create(module + "@" + version + strings.TrimPrefix(path, root))
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return err
	})
	mod, errMod := os.ReadFile(filepath.Join(root, "go.mod"))
	info := fmt.Appendf(nil, `{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, version)
	if err := errors.Join(err, errMod, w.Close(), file.Close(), os.WriteFile(filepath.Join(at, version+".mod"), mod, 0o600),
		os.WriteFile(filepath.Join(at, version+".info"), info, 0o600),
		os.WriteFile(filepath.Join(at, "list"), []byte(version+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	env, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Split(strings.TrimSpace(string(env)), "\n")
	return "file://" + dir + ",file://" + filepath.Join(line[0], "cache", "download") + "," + line[1]
}
