//go:build linux

package verbstest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/soft-roce/live"
	"github.com/ibrun/ibrun/verbs"
)

// unprivilegedID is the user and group ID of a user without rights.
const unprivilegedID = 65534

// runUnprivileged runs a test in a process of a user without rights. There VERBSTEST_UNPRIVILEGED has the name of the provider.
func runUnprivileged(t *testing.T, provider string) {
	t.Helper()
	// That user may not be able to read the program where it is.
	dir := must(os.MkdirTemp("", "verbstest"))(t)
	defer os.RemoveAll(dir)
	program := must(os.ReadFile(must(os.Executable())(t)))(t)
	exe := filepath.Join(dir, "verbstest.test")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(exe, program, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^"+t.Name()[:strings.Index(t.Name()+"/", "/")]+"$", "-test.v")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "VERBSTEST_UNPRIVILEGED="+provider)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivilegedID, Gid: unprivilegedID}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: ") {
		t.Errorf("as another user: %v\n%s", err, out)
	}
}

// Without permission for the device file, the error is ErrPermission, names the file and wraps the errno.
func TestLivePermission(t *testing.T) {
	name := live.Device(t)
	if provider := os.Getenv("VERBSTEST_UNPRIVILEGED"); provider != "" {
		for _, open := range []string{name, ""} {
			_, err := verbs.Open(open, verbs.Options{Provider: provider})
			file := err != nil && strings.Contains(err.Error(), "/dev/infiniband/uverbs")
			if !errors.Is(err, verbs.ErrPermission) || !errors.Is(err, syscall.EACCES) || !file {
				t.Errorf("open %q: %v", open, err)
			}
		}
		for _, d := range must(verbs.Devices())(t) {
			if !errors.Is(d.Err, verbs.ErrPermission) {
				t.Errorf("device %s: %v", d.Name, d.Err)
			}
		}
		return
	}
	path := charDevice(t, name)
	old := must(os.Stat(path))(t)
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(path, old.Mode()) })
	for _, provider := range []string{"rxe", "libibverbs"} {
		runUnprivileged(t, provider)
	}
}

func charDevice(t *testing.T, name string) string {
	t.Helper()
	for _, d := range must(hw.LocalRDMA())(t) {
		if c, ok := d.Uverbs(); ok && d.Name == name {
			return c.Path()
		}
	}
	t.Fatalf("device %s has no file", name)
	return ""
}

// Registering more than RLIMIT_MEMLOCK fails with the limit, the size and the remedy. Smaller regions still work.
func TestLiveMemlock(t *testing.T) {
	name := live.Device(t)
	provider := os.Getenv("VERBSTEST_UNPRIVILEGED")
	if provider == "" {
		for _, provider := range []string{"rxe", "libibverbs"} {
			runUnprivileged(t, provider)
		}
		return
	}
	const limit, need = 256 << 10, 8 << 20
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
	r := newFixture(t, openLive(name, provider))
	small := make([]byte, 64<<10)
	first := must(r.pd.Register(small, verbs.LocalWrite))(t)
	_, err := r.pd.Register(make([]byte, need), verbs.LocalWrite)
	r.checkError(err, verbs.ErrMemlock, "more than may be locked")
	for _, word := range []string{fmt.Sprint(limit), fmt.Sprint(need), "ulimit -l"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not say %s", err, word)
		}
	}
	must(r.pd.Register(small, verbs.LocalWrite))(t)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
}

// The error for an unknown device or provider names it.
func TestLiveNoDevice(t *testing.T) {
	name := live.Device(t)
	_, err := verbs.Open("mlx5_77", verbs.Options{})
	if !errors.Is(err, verbs.ErrNoDevice) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "mlx5_77") {
		t.Errorf("an unknown device: %v", err)
	}
	_, err = verbs.Open(name, verbs.Options{Provider: "magic"})
	if !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), "magic") {
		t.Errorf("an unknown provider: %v", err)
	}
}
