package repository

import "testing"

// TestRulesOfObjectsNameAField checks the validation rules of whole objects. If such a rule names no field, the API
// server begins its message with "<nil>: ".
func TestRulesOfObjectsNameAField(t *testing.T) {
	t.Parallel()
	rules := 0
	for _, crd := range definitions(t) {
		for _, version := range crd.Spec.Versions {
			for _, rule := range version.Schema.OpenAPIV3Schema.XValidations {
				if rule.FieldPath == "" {
					t.Errorf("%s: add a fieldPath to the rule with the message %q", crd.Name, rule.Message)
				}
				rules++
			}
		}
	}
	if rules < 10 {
		t.Errorf("%d rules were checked, want at least 10", rules)
	}
}
