package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ibrun/ibrun/soft-roce/vm/internal/debian"
	"github.com/ibrun/ibrun/soft-roce/vm/internal/guest"
	"github.com/ibrun/ibrun/soft-roce/vm/internal/initrd"
	"github.com/ibrun/ibrun/soft-roce/vm/internal/qemu"
)

// modules are those that a guest has, besides what these need. rxe asks for crc32 when a device is made.
var modules = []string{
	"virtio_pci", "virtio_net", "virtio_console", "9pnet_virtio", "9p",
	"crc32_generic", "crc32_pclmul", "rdma_rxe", "ib_uverbs", "rdma_ucm", "ib_umad", "veth", "sch_netem",
}

// How long a guest may take to come up. With hardware virtualisation it takes a second or two, and where that does not
// work the kernel hangs; emulation takes four seconds on an idle machine, and must not fail on a busy one.
const (
	patienceKVM = 20 * time.Second
	patienceTCG = 3 * time.Minute
)

// cluster is all the guests of a run.
type cluster struct {
	nodes   []*node
	kernel  *debian.Installed
	configs []guest.Config
	work    string // directory for images
}

// boot starts the guests, with hardware virtualisation if that works here. Whether it does is found out by trying, and
// remembered for a day; where memory is wrong the guests start slower, and it is corrected.
func (c *cluster) boot(ctx context.Context, memory string, say func(string, ...any)) error {
	for i, config := range c.configs {
		if err := c.writeImage(i, config); err != nil {
			return fmt.Errorf("write the image of node %d: %w", i, err)
		}
	}
	if mayHaveKVM() && recall(memory) != qemu.TCG {
		err := c.start(ctx, qemu.KVM, patienceKVM)
		if err == nil {
			return remember(memory, qemu.KVM)
		}
		if ctx.Err() != nil {
			return err
		}
		say("hardware virtualisation does not work here: %v", err)
		c.kill()
		if err := remember(memory, qemu.TCG); err != nil {
			return err
		}
	}
	return c.start(ctx, qemu.TCG, patienceTCG)
}

// start starts all guests and waits until they are up.
func (c *cluster) start(ctx context.Context, accel qemu.Accel, patience time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not up after %v", patience))
	defer cancel()
	cables := make([]*os.File, len(c.configs))
	cpus, memory := 2, 2048
	if len(cables) == 2 {
		cpus, memory = 1, 1024
		var err error
		if cables[0], cables[1], err = qemu.NewWire(); err != nil {
			return err
		}
		defer cables[0].Close()
		defer cables[1].Close()
	}
	c.nodes = nil
	for i := range c.configs {
		n, err := startNode(i, qemu.Config{
			Accel: accel, Kernel: c.kernel.Image, Initrd: c.image(i), CPUs: cpus, Memory: memory,
			Port: guest.PortName, MountTag: guest.MountTag, Number: i,
		}, cables[i])
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, n)
	}
	for _, n := range c.nodes {
		go n.serve(c.nodes)
	}
	for _, n := range c.nodes {
		if err := n.awaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) kill() {
	for _, n := range c.nodes {
		n.machine.Kill()
		n.session.Close()
	}
	c.nodes = nil
}

func (c *cluster) image(node int) string { return filepath.Join(c.work, fmt.Sprintf("initrd%d", node)) }

// writeImage writes what the kernel of a node unpacks.
func (c *cluster) writeImage(node int, config guest.Config) error {
	file, err := os.Create(c.image(node))
	if err != nil {
		return err
	}
	defer file.Close()
	w := initrd.NewWriter(file)
	add := func(name string, perm uint32, from string) error {
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		return w.File(name, perm, data)
	}
	text, err := config.Encode()
	if err != nil {
		return err
	}
	err = errors.Join(
		w.Device("dev/console", 5, 1),
		add(guest.InitFile, 0o755, filepath.Join(config.Bin, "vm")),
		w.File(guest.ConfigFile, 0o644, text))
	for _, m := range c.kernel.Modules {
		err = errors.Join(err, add(filepath.Join(guest.ModuleDir, filepath.Base(m)), 0o644, m))
	}
	return errors.Join(err, w.Close(), file.Close())
}

// verdict is what was found out about hardware virtualisation.
type verdict struct {
	Accel qemu.Accel
	Boot  string // the host's boot_id: another boot may be another machine
	Time  time.Time
}

// validFor is how long a verdict holds.
const validFor = 24 * time.Hour

func mayHaveKVM() bool {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// recall returns what was found out, or "" if it has to be found out.
func recall(file string) qemu.Accel {
	var v verdict
	text, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(text, &v) != nil || v.Boot != bootID() || time.Since(v.Time).Abs() > validFor {
		return ""
	}
	return v.Accel
}

func remember(file string, a qemu.Accel) error {
	if recall(file) == a {
		return nil
	}
	text, err := json.Marshal(verdict{Accel: a, Boot: bootID(), Time: time.Now()})
	if err != nil {
		return err
	}
	// Whole or not at all: others may read it now.
	fresh := fmt.Sprintf("%s.%d", file, os.Getpid())
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, file)
}

// bootID tells one start of the host from another; "" where the kernel does not say.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
