package command

import "testing"

func TestChoiceOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		key  byte
		want choice
	}{
		{"Enter takes the default", '\r', detach},
		{"a second Ctrl-C detaches", keyCtrlC, detach},
		{"the end of the input detaches", keyCtrlD, detach},
		{"p pauses", 'p', pause},
		{"x deletes", 'X', remove},
		{"c continues", 'c', goOn},
		{"another key is no answer", 'y', ""},
	} {
		if got, ok := choiceOf(test.key); got != test.want || ok != (test.want != "") {
			t.Errorf("%s: got %q, %t", test.name, got, ok)
		}
	}
}
