// Package softroce is the command `ibrun soft-roce`. It creates, lists and removes RDMA devices of the kernel's Soft-RoCE
// driver.
//
//	ibrun soft-roce up eth0       creates rxe0 on eth0 and prints its name
//	ibrun soft-roce show          lists all devices
//	ibrun soft-roce down rxe0     removes it
package softroce

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/manual"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/soft-roce/link"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// Page returns the description of the command.
func Page() manual.Page {
	return manual.Page{Name: "soft-roce", Summary: "create and remove software RDMA devices",
		Forms: []string{"soft-roce up NETDEV [NAME]", "soft-roce down NAME", "soft-roce show"},
		About: []string{"It requires root, and a kernel with the driver rdma_rxe (docs/soft-roce.md)."},
		Words: []string{"up", "down", "show"},
		Topics: []manual.Topic{{Title: "Actions", Entries: []manual.Entry{
			{Term: "up NETDEV [NAME]", Text: "create a Soft-RoCE device on a network interface (default NAME: the first free rxeN)"},
			{Term: "down NAME", Text: "remove it"},
			{Term: "show", Text: "list all"},
		}}},
	}
}

// linkFuncs is the functions of package link, or a fake in tests.
type linkFuncs struct {
	add    func(name, netdev string) error
	remove func(name string) error
	list   func() ([]link.Link, error)
	// check returns the reason why a device that was created does not work, or nil.
	check func(name string) error
}

// Main is `ibrun soft-roce args...`. It returns the exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	return run(args, stdout, stderr, linkFuncs{link.Add, link.Delete, link.List, checkDevice})
}

// checkDevice returns an error if the driver cannot receive in this network namespace. Other obstacles, such as a file that udev
// has not created yet, may go away.
func checkDevice(name string) error {
	devices, err := hw.LocalRDMA()
	i := slices.IndexFunc(devices, func(d hw.RDMADevice) bool { return d.Name == name })
	if err != nil || i < 0 {
		return err
	}
	if err := devices[i].CanOpen(); errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// errUsage reports arguments that the command does not accept.
var errUsage = errors.New("usage error")

func run(args []string, stdout, stderr io.Writer, l linkFuncs) int {
	err := errUsage
	word := ""
	if len(args) > 0 {
		word = args[0]
	}
	switch {
	case word == "help" || slices.ContainsFunc(args, isHelpFlag):
		page := Page()
		fmt.Fprint(stdout, page.Help())
		return exitOK
	case word == "up" && (len(args) == 2 || len(args) == 3):
		err = l.up(args[1], args[2:], stdout, stderr)
	case word == "down" && len(args) == 2:
		err = l.remove(args[1])
	case word == "show" && len(args) == 1:
		err = l.show(stdout)
	}
	if errors.Is(err, errUsage) {
		page := Page()
		fmt.Fprint(stderr, page.Usage())
		return exitUsage
	}
	if err != nil {
		fmt.Fprintf(stderr, "ibrun soft-roce: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// isHelpFlag reports whether word is a help flag. The word help itself may be the name of a device.
func isHelpFlag(word string) bool { return slices.Contains([]string{"-h", "-help", "--help"}, word) }

// maxDevices bounds the names rxeN that are tried.
const maxDevices = 1000

// up creates a device with the given name, or the first free rxeN, and prints the name. If it does not work, up says why.
func (l linkFuncs) up(netdev string, name []string, stdout, stderr io.Writer) error {
	if len(name) == 1 {
		if err := l.add(name[0], netdev); err != nil {
			return err
		}
		l.created(name[0], stdout, stderr)
		return nil
	}
	for n := range maxDevices {
		free := fmt.Sprintf("rxe%d", n)
		err := l.add(free, netdev)
		if err == nil {
			l.created(free, stdout, stderr)
		}
		if !errors.Is(err, link.ErrNameInUse) {
			return err
		}
	}
	return fmt.Errorf("all names from rxe0 to rxe%d are in use", maxDevices-1)
}

// created prints the name of a new device, and what keeps it from working.
func (l linkFuncs) created(name string, stdout, stderr io.Writer) {
	fmt.Fprintln(stdout, name)
	if err := l.check(name); err != nil {
		fmt.Fprintf(stderr, "ibrun soft-roce: %s was created, but: %v\n`ibrun soft-roce down %s` removes it\n", name, err, name)
	}
}

// show lists all devices.
func (l linkFuncs) show(stdout io.Writer) error {
	all, err := l.list()
	if err != nil || len(all) == 0 {
		return err
	}
	w := tabwriter.NewWriter(stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tNETDEV\tSTATE")
	for _, d := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\n", d.Name, d.Netdev, d.State)
	}
	return w.Flush()
}
