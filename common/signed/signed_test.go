package signed

import "testing"

func TestASignatureIsOnlyThatOfItsTextAndKey(t *testing.T) {
	t.Parallel()
	signature := Text("key", "text")
	for name, tc := range map[string]struct {
		signature, key, text string
		want                 bool
	}{
		"the same key and text": {signature, "key", "text", true},
		"another text":          {signature, "key", "other", false},
		"another key":           {signature, "other", "text", false},
		"a part of it":          {signature[1:], "key", "text", false},
		"no signature":          {"", "key", "text", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Is(tc.signature, tc.key, tc.text); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
