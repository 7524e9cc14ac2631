package core

import "unicode/utf8"

// MaxObjectName is the maximum length of the name of a communicator or a datatype in bytes. C's
// constant also counts the final NUL.
const MaxObjectName = 127

// SetName gives the communicator a name, which is cut to MaxObjectName bytes.
func (c *Comm) SetName(name string) error {
	if err := c.checkUsable("SetName"); err != nil {
		return err
	}
	name = cutName(name)
	c.nameMu.Lock()
	defer c.nameMu.Unlock()
	c.name = name
	c.engine.Recording().NameContext(c.contextID, name)
	return nil
}

// Name returns the name.
func (c *Comm) Name() (string, error) {
	if err := c.checkUsable("Name"); err != nil {
		return "", err
	}
	c.nameMu.Lock()
	defer c.nameMu.Unlock()
	return c.name, nil
}

// cutName cuts a name to MaxObjectName bytes, before a character that would be cut in two.
func cutName(name string) string {
	if len(name) <= MaxObjectName {
		return name
	}
	n := MaxObjectName
	for n > 0 && n > MaxObjectName-utf8.UTFMax && !utf8.RuneStart(name[n]) {
		n--
	}
	return name[:n]
}
