package model

import "testing"

func TestEachNumberIsInOnePart(t *testing.T) {
	t.Parallel()
	for number := range 5 {
		in := 0
		for _, part := range []string{"1/3", "2/3", "3/3"} {
			selected, err := isInPart(part, number)
			if err != nil {
				t.Fatal(err)
			}
			if selected {
				in++
			}
		}
		if in != 1 {
			t.Errorf("the number %d is in %d of 3 parts, want 1", number, in)
		}
	}
}

func TestAPartOutsideOfTheNumberOfPartsIsInvalid(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"", "1", "0/2", "3/2", "a/2", "1/2x", "1/2/3"} {
		if _, err := isInPart(part, 0); err == nil {
			t.Errorf("the part %q is valid", part)
		}
	}
}
