package docs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/docpages"
)

// tools are the programs in the root directory, besides Go.
var tools = []string{"sh", "cat", "mkdir", "mv", "rm", "sleep"}

// install makes what most pages take for granted: the command ibrun, and a program ./app in the home directory.
const install = `set -e
go install github.com/ibrun/ibrun/cmd/ibrun@latest
GOBIN=/home go install github.com/ibrun/ibrun/examples/pi@latest
mv /home/pi /home/app`

// TestTyped types the commands of all pages, page by page. IBRUN_DOCS says which: those that need only Go ("go"), the checkout
// ("checkout"), QEMU ("guest"), an RDMA device ("rdma"), or time ("bench", "soak"). Commands that need a cluster are typed by
// internal/clustertest.
func TestTyped(t *testing.T) {
	if os.Getenv("IBRUN_DOCS") == "" {
		t.Skip("`make readme` types the commands of the pages")
	}
	checkout, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	root := ""
	for need := range strings.SplitSeq(os.Getenv("IBRUN_DOCS"), ",") {
		inside := need == "go" || need == "checkout"
		if inside && root == "" {
			root = newRoot(t, checkout)
			if out, err := inRoot(t, root, "", t.TempDir(), install).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		commands := 0
		for _, page := range blocks(t) {
			dir := t.TempDir()
			if !inside { // these commands need no file of the page, and their directory is the checkout
				page = slices.DeleteFunc(page, func(b docpages.Block) bool { return b.Has("file") })
			}
			typing, err := docpages.NewTyping(page, dir, need)
			if err != nil {
				t.Fatal(err)
			}
			if typing == nil {
				continue
			}
			commands += typing.Commands()
			script := typing.Script(dir)
			if need == "rdma" { // in a guest, whose device is there already, and whose user is root
				script = "sudo() { \"$@\"; }\nibrun soft-roce down rxe0\n" + script
			}
			cmd := exec.Command("sh", "-c", script)
			cmd.Dir = checkout
			if inside {
				cmd = inRoot(t, root, map[string]string{"checkout": checkout}[need], dir, typing.Script("/typed"))
			}
			t.Run(need+"/"+page[0].Page, func(t *testing.T) { execute(t, typing, cmd) })
		}
		if commands == 0 {
			t.Errorf("no page has commands that need %q", need)
		}
		t.Logf("%s: %d blocks of commands", need, commands)
	}
}

// execute types the commands of a page.
func execute(t *testing.T, typing *docpages.Typing, cmd *exec.Cmd) {
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	runErr := cmd.Run()
	if err := typing.Result(); err != nil {
		t.Errorf("%v\n%v", err, runErr)
	} else if runErr != nil {
		t.Error(runErr)
	}
}

// newRoot makes a root directory with a shell, a few programs and their libraries, and a module proxy.
func newRoot(t *testing.T, checkout string) string {
	t.Helper()
	root := t.TempDir()
	for dir := range strings.FieldsSeq("bin dev etc home go proc proxy root sys tmp typed cache modules") {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	files := []string{}
	for _, tool := range tools {
		file, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		copyFile(t, file, filepath.Join(root, "bin", tool))
		libraries, err := exec.Command("ldd", file).Output()
		if err != nil {
			t.Fatalf("ldd %s: %v", file, err)
		}
		for _, word := range strings.Fields(string(libraries)) {
			if strings.HasPrefix(word, "/") {
				files = append(files, word)
			}
			if strings.HasPrefix(word, "/") && strings.Contains(word, "/libc.so.") { // the rest of glibc, which every system has
				files = append(files, filepath.Join(filepath.Dir(word), "libdl.so.2"), filepath.Join(filepath.Dir(word), "libpthread.so.0"))
			}
		}
	}
	for _, file := range files {
		copyFile(t, file, filepath.Join(root, file))
	}
	hosts := "127.0.0.1 localhost node0 node1\n"
	for name, text := range map[string]string{"hosts": hosts, "passwd": "root:x:0:0::/root:/bin/sh\n"} {
		if err := os.WriteFile(filepath.Join(root, "etc", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := docpages.WriteProxy(filepath.Join(root, "proxy"), checkout); err != nil {
		t.Fatal(err)
	}
	return root
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// inRoot returns a command that runs a script in the root directory, in namespaces of its own: without a network but lo, and
// with an empty home directory, or one with the checkout. Go, its build cache and its module cache are those of this machine.
func inRoot(t *testing.T, root, checkout, typed, script string) *exec.Cmd {
	t.Helper()
	goEnv := func(name string) string {
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	goRoot := goEnv("GOROOT")
	if err := os.MkdirAll(filepath.Join(root, goRoot), 0o755); err != nil {
		t.Fatal(err)
	}
	mounts := "ip link set lo up\n"
	for from, to := range map[string]string{
		goRoot: goRoot, goEnv("GOCACHE"): "/cache", filepath.Join(goEnv("GOMODCACHE"), "cache/download"): "/modules",
		typed: "/typed", "/dev": "/dev", "/sys": "/sys",
	} {
		mounts += fmt.Sprintf("mount --rbind '%s' '%s%s'\n", from, root, to)
	}
	for _, m := range []string{"proc proc /proc", "tmpfs -o mode=1777 tmpfs /tmp", "tmpfs tmpfs /root"} {
		mounts += "mount -t " + strings.Replace(m, "/", root+"/", 1) + "\n"
	}
	mounts += fmt.Sprintf("mkdir %[1]s/root/go\nmount --bind %[1]s/go %[1]s/root/go\n", root)
	mounts += fmt.Sprintf("[ ! -e %[1]s/home/app ] || cp %[1]s/home/app %[1]s/root\n", root)
	if checkout != "" { // what the commands write is not left in the checkout

		mounts += fmt.Sprintf("mkdir %[2]s/root/ibrun %[2]s/tmp/up %[2]s/tmp/work\nmount -t overlay "+
			"-o 'lowerdir=%[1]s,upperdir=%[2]s/tmp/up,workdir=%[2]s/tmp/work' overlay %[2]s/root/ibrun\n", checkout, root)
	}
	words := []string{"--mount", "--net", "--pid", "--fork", "--kill-child"}
	if os.Geteuid() != 0 {
		words = append(words, "--map-root-user")
	}
	words = append(words, "sh", "-ec", mounts+`exec chroot "$0" /bin/sh -c "cd; [ ! -d ibrun ] || cd ibrun; $1"`, root, script)
	cmd := exec.Command("unshare", words...)
	cmd.Env = []string{"HOME=/root", "PATH=" + goRoot + "/bin:/root/go/bin:/bin:/usr/sbin:/sbin:/usr/bin", "GOCACHE=/cache",
		"GOSUMDB=off", "GOPROXY=file:///proxy,file:///modules", "GOTOOLCHAIN=local", "GOFLAGS=-modcacherw", "TMPDIR=/tmp"}
	cmd.Stdin = bytes.NewReader(nil)
	return cmd
}
