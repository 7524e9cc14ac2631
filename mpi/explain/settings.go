package explain

import (
	"cmp"

	"github.com/ibrun/ibrun/internal/transports"
	"github.com/ibrun/ibrun/internal/tunables"
)

// addSettings adds the settings that are not lengths, except those of RDMA connections.
func (p *Path) addSettings(getenv func(string) string) error {
	add := func(name, variable, value string) {
		source := variable
		if getenv(variable) == "" {
			source = "default"
		}
		p.Attributes = append(p.Attributes, Attribute{name, value, source, variable})
	}
	if p.Transport == transports.Shm.String() {
		stores, err := tunables.StoresFromEnv(getenv)
		if err != nil {
			return err
		}
		text := stores.String()
		if stores == tunables.FastestStores {
			text += ", or cached where ranks share cores"
		}
		add("stores", tunables.ShmStores, text)
	}
	if p.Transport == transports.TCP.String() {
		checksum, err := tunables.ChecksumFromEnv(getenv)
		if err != nil {
			return err
		}
		encrypt, err := tunables.EncryptFromEnv(getenv)
		if err != nil {
			return err
		}
		add("interfaces", tunables.TCPInterfaces, cmp.Or(getenv(tunables.TCPInterfaces), "all that have an address"))
		checksums := "off"
		if checksum && !encrypt { // TLS detects changes itself
			checksums = "on between machines"
		}
		add("checksum", tunables.Checksum, checksums)
		add("encryption", tunables.Encrypt, onOff(encrypt))
	}
	if p.Transport != transports.Shm.String() {
		heartbeat, err := tunables.HeartbeatFromEnv(getenv)
		if err != nil {
			return err
		}
		add("heartbeat", tunables.Heartbeat, heartbeat.String())
	}
	poll, err := tunables.PollFromEnv(getenv)
	if err != nil {
		return err
	}
	text := "1ms, or 300 yields"
	if poll != nil {
		text = poll.String()
	}
	add("poll", tunables.Poll, text)
	return nil
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
