package doctor

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/ibrun/ibrun/hw"
)

// capturable returns a healthy host that hw.Capture can capture.
func capturable() *Host {
	h := healthy()
	for name, text := range map[string]string{
		"sys/devices/system/cpu/online": "0\n", "sys/devices/system/cpu/present": "0\n", "sys/devices/system/cpu/possible": "0\n",
		"sys/class/infiniband/mlx5_0/ports/1/gids/3": "0000:0000:0000:0000:0000:ffff:0a00:0001\n",
		"proc/self/cgroup":                           "0::/slurm/job_7\n", "sys/fs/cgroup/slurm/memory.max": "4096\n",
		"etc/os-release": "NAME=\"Some Linux\"\nID=some\nSUPPORT_URL=x\n",
		"proc/modules":   "mlx5_ib 450560 0 - Live 0x0000000000000000\n",
	} {
		h.put(name, text)
	}
	return h
}

// texts returns the content of an archive's files, of which all are in one folder.
func texts(t *testing.T, data []byte) map[string]string {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for archive := tar.NewReader(unzipped); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		name, inFolder := strings.CutPrefix(h.Name, bundleFolder+"/")
		if !inFolder || h.Uname != "" || h.Uid != 0 {
			t.Errorf("%s of %q, %d", h.Name, h.Uname, h.Uid)
		}
		found[name] = h.Linkname + string(text)
	}
}

// bundleOf writes a bundle of a host and returns its files and what was printed.
func bundleOf(t *testing.T, h *Host, env ...string) (files map[string]string, printed string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "b.tar.gz")
	var out bytes.Buffer
	if err := writeBundle(name, h, env, &out); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	return texts(t, data), out.String()
}

// The bundle has what a report needs, and the list that is printed names every file but those of the kernel.
func TestBundle(t *testing.T) {
	files, printed := bundleOf(t, capturable(), "SLURM_JOB_ID=77", "IBRUN_RDMA_TRAFFIC_CLASS=106", "IBRUN_RMDA_PKEY=1")
	for name, want := range map[string]string{
		"README.txt": "ibrun doctor --input FILE", "version.txt": "ibrun v1", "doctor.txt": "ok       port.state",
		"doctor.json": `"id": "port.state"`, "explain.txt": "tcp: ranks of different nodes", "devices.json": `"mlx5_0"`,
		"environment.txt": "IBRUN_RDMA_TRAFFIC_CLASS=106\nIBRUN_RMDA_PKEY (set; its value is not shown)\nSLURM_JOB_ID=77\n",
		"system.txt":      "/slurm memory.max: 4096", "network.txt": "lo, MTU", "modules.txt": "mlx5_ib 450560 0 -",
		"proc/self/limits": "Max locked memory",
		"sys/class/infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err": "0\n",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s has\n%s\nwithout %q", name, files[name], want)
		}
	}
	if text := files["system.txt"]; !strings.Contains(text, "libibverbs.so.1") || !strings.Contains(text, `NAME="Some Linux"`) {
		t.Errorf("system.txt: %s", text)
	}
	for name := range files {
		if !strings.Contains(name, "/") && !strings.Contains(printed, "  "+name+" ") {
			t.Errorf("%s is not listed:\n%s", name, printed)
		}
	}
}

// Secrets and the name of the user are in no file of a bundle, wherever on the machine they are.
func TestBundleSecrets(t *testing.T) {
	const secret = "hunter2hunter2"
	h := capturable()
	for name, text := range map[string]string{
		"proc/cmdline": "root=/dev/sda password=%s\n", "proc/self/environ": "TOKEN=%s\x00", "proc/self/cmdline": "a\x00--token=%s\x00",
		"proc/17/cmdline": "sshd\x00%s\x00", "proc/17/environ": "TOKEN=%s\x00", "etc/shadow": "root:%s:1\n",
		"proc/mounts":       "//server/%[1]s /mnt cifs rw,password=%[1]s 0 0\ntmpfs /dev/shm tmpfs rw,uid=%[1]s,size=8388608k 0 0\n",
		"proc/self/status":  "Name:\t%[1]s\nCapEff:\t0000000000000000\nX%[1]s:\t1\n",
		"etc/hosts":         "127.0.0.1 localhost\n10.0.0.1 node1 # %s\n",
		"etc/os-release":    "NAME=Some\nSECRET=%s\n",
		"sys/module/x/name": "%s", "sys/module/x/parameters/key": "%s",
		"sys/class/net/eth2/ifalias": "%s", "sys/class/net/eth2/address": "00:00:00:00:00:01\n",
		"sys/class/infiniband/mlx5_0/node_desc": "%s", "root/.ssh/id_rsa": "%s", "home/jdoe/.netrc": "%s",
		"proc/modules": "mlx5_ib 450560 0 %s Live 0x0\n", "proc/self/cgroup": "0::/home/jdoe/scope-jdoe\n",
	} {
		h.put(name, strings.ReplaceAll(strings.ReplaceAll(text, "%[1]s", secret), "%s", secret))
	}
	h.Peers[0].LoginErr = errors.New("jdoe@node2: Permission denied, key /home/jdoe/.ssh/id_rsa, token " + secret)
	h.Root.(fstest.MapFS)["sys/class/net/eth2/device"] = &fstest.MapFile{Mode: os.ModeSymlink, Data: []byte("/home/jdoe/x")}
	env := []string{"HOME=/home/jdoe", "USER=jdoe", "LOGNAME=jdoe", "AWS_SECRET_ACCESS_KEY=" + secret, "UNKNOWN=" + secret + "2",
		"IBRUN_SECRET_FILE=/home/jdoe/" + secret, "IBRUN_X=TOKEN=" + secret, "SLURM_JOB_ACCOUNT=" + secret, "SLURM_JOB_USER=jdoe",
		"UCX_TLS=rc,password=" + secret, "NCCL_IB_HCA=https://" + secret, "SLURM_JOB_NODELIST=" + strings.Repeat("k", 41),
		"GODEBUG=" + secret + "\x1b", "LD_PRELOAD=/home/jdoe/lib.so", "GITHUB_TOKEN=" + secret}
	files, printed := bundleOf(t, h, env...)
	files["stdout"] = printed
	for name, text := range files {
		for _, planted := range []string{"hunter2", "jdoe", strings.Repeat("k", 41)} {
			if strings.Contains(text, planted) {
				t.Errorf("%s contains %q:\n%.2000s", name, planted, text)
			}
		}
	}
	if !strings.Contains(files["environment.txt"], "IBRUN_SECRET_FILE "+notShown) ||
		!strings.Contains(files["doctor.txt"], "node1") {
		t.Errorf("too much was removed: %s", files["environment.txt"])
	}
}

// Values of settings are quoted by errors. Those that could be secrets are in no file of a bundle, in no form, and nor are users.
func TestBundleQuotedSecrets(t *testing.T) {
	const key = "ghp_hunter2abcdefghijklmnopqrstuvwxyz012"
	h := capturable()
	env := []string{"HOME=/u/jdoe", "SUDO_USER=asmith", "USER=ubuntu", "A_TOKEN=hunter2", "B_TOKEN=hunter2hunter2",
		"IBRUN_RDMA_PKEY=https://me:hunter2@host/x", "IBRUN_HEARTBEAT=a\"b\\hunter2\t<&>", "IBRUN_RDMA_SL=" + key,
		"IBRUN_RDMA_MTU=" + strings.Repeat("hunter2/=", 40), "IBRUN_TRANSPORT=tcp," + key}
	h.Getenv = lookup(env)
	for _, v := range env {
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, "IBRUN_") {
			t.Setenv(name, value) // for ibrun explain
		}
	}
	h.Peers[0].LoginErr = errors.New("asmith@node2 via bwayne@gate: /scratch/jdoe_x/jdoe, asmith asmith: ftp://x:hunter2@host, " +
		env[3] + env[4] + ", ubuntu")
	files, _ := bundleOf(t, h, env...)
	for name, text := range files {
		for _, planted := range []string{"hunter2", "jdoe", "asmith", "bwayne", "ghp_"} {
			if strings.Contains(text, planted) {
				t.Errorf("%s contains %q:\n%.3000s", name, planted, text)
			}
		}
	}
	for name, want := range map[string]string{"doctor.txt": `IBRUN_RDMA_PKEY="(removed)"`,
		"doctor.json":     `IBRUN_HEARTBEAT=\"(removed)\"`,
		"environment.txt": "IBRUN_TRANSPORT " + notShown} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s does not have %s:\n%.3000s", name, want, files[name])
		}
	}
	if !strings.Contains(files["doctor.txt"], ", ubuntu") {
		t.Error("the name of a distribution was taken for that of a person")
	}
	for value, want := range map[string]bool{"GPU-8932f937-d72c-4106-c12f-20bd9faed9f6": true, "node[001-128,7]": true, key: false,
		"ip-10-0-0-1.us-west-2.compute.internal": true, strings.Repeat("a", 25): false} {
		if isPlain(value) != want {
			t.Errorf("plain: %s", value)
		}
	}
}

// What a bundle contains is bounded, whatever the size of the machine.
func TestBundleBounds(t *testing.T) {
	h := capturable()
	h.put("proc/modules", strings.Repeat("module 1 1 x\n", 1<<20/10))
	for i := range 40 {
		h.put(fmt.Sprintf("sys/class/net/eth%d/address", i), strings.Repeat("x", 300))
	}
	members, err := bundleMembers(h, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		if len(m.data) > maxMember {
			t.Errorf("%s has %d bytes", m.name, len(m.data))
		}
	}
	const limit = 20 << 10
	tree, err := treeMembers(h, newScrubber(nil), limit)
	total := 0
	for _, m := range tree {
		total += len(m.data)
	}
	if err != nil || total > limit || len(tree) == 0 {
		t.Errorf("%d files of %d bytes, %v", len(tree), total, err)
	}
}

// The maintainers read the machine of a bundle.
func TestBundleInput(t *testing.T) {
	tree := os.DirFS("/")
	top, err := hw.Read(tree)
	if err != nil {
		t.Fatal(err)
	}
	h := capturable()
	h.Root, h.Top = tree, top
	dir := t.TempDir()
	name := filepath.Join(dir, "b.tgz")
	if err := writeBundle(name, h, nil, io.Discard); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code := Main([]string{"--all", "--input", name}, nil, "ibrun v1", &out, &errs)
	if code > 1 || !strings.Contains(out.String(), "memlock.limit") {
		t.Errorf("code %d, %s, %s", code, out.String(), errs.String())
	}
	// A file that is there already stays, and nothing else is left.
	if code := Main([]string{"--bundle", name}, nil, "ibrun v1", &out, &errs); code != exitFailed ||
		!strings.Contains(errs.String(), "file exists") && !strings.Contains(errs.String(), "file already exists") {
		t.Errorf("code %d, %s", code, errs.String())
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
}

func TestBundleCommand(t *testing.T) {
	for line, want := range map[string][]string{
		"--bundle b.tar.gz node1":    {"--bundle=b.tar.gz", "node1"},
		"--bundle node1":             {"--bundle", "node1"},
		"--bundle":                   {"--bundle"},
		"-bundle x.tgz":              {"-bundle=x.tgz"},
		"--bundle=b.tar.gz x.tar.gz": {"--bundle=b.tar.gz", "x.tar.gz"},
		"--json --bundle b.tar.gz":   {"--json", "--bundle=b.tar.gz"},
	} {
		if got := joinBundleName(strings.Fields(line)); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	for line, want := range map[string]string{
		"--bundle=report.txt": ".tar.gz", "--bundle --json": "neither --input nor --json", "--bundle --input x": "neither",
		"--bundle /nowhere/b.tar.gz": "no such file", "node1 --bundle": "flags come before the hosts",
	} {
		var out, errs bytes.Buffer
		if code := Main(strings.Fields(line), nil, "", &out, &errs); code != exitFailed || !strings.Contains(errs.String(), want) {
			t.Errorf("%q: code %d, %s; want %q", line, code, errs.String(), want)
		}
	}
	const want = "ibrun-bundle-node1_a_b-20260102-030405.tar.gz"
	if name := bundleName("node1.a/b", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)); name != want {
		t.Error(name)
	}
}
