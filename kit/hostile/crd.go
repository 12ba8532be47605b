package hostile

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// CRD admits jobs as the API server does that has the CustomResourceDefinition: with strict field validation, defaults
// and CEL rules. It is made of the parts that the API server is made of, so that a fuzzer need not ask one; a test that
// asks both says whether they agree.
type CRD struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
	// scaled is the field that the scale subresource sets, nil if there is none.
	scaled []string
}

// ReadCRD reads the manifest of a CustomResourceDefinition of one version.
func ReadCRD(file string) (*CRD, error) {
	manifest, err := os.ReadFile(file) //nolint:gosec // the test names the file
	if err != nil {
		return nil, err
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(manifest, &definition); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	if n := len(definition.Spec.Versions); n != 1 {
		return nil, fmt.Errorf("%s has %d versions, want 1", file, n)
	}
	version := definition.Spec.Versions[0]
	var props apiextensions.JSONSchemaProps
	err = apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema,
		&props, nil)
	if err != nil {
		return nil, fmt.Errorf("reading the schema in %s: %w", file, err)
	}
	c := &CRD{}
	if s := version.Subresources; s != nil && s.Scale != nil {
		c.scaled = strings.Split(strings.TrimPrefix(s.Scale.SpecReplicasPath, "."), ".")
	}
	if c.structural, err = structuralschema.NewStructural(&props); err != nil {
		return nil, fmt.Errorf("reading the schema in %s: %w", file, err)
	}
	if c.schema, _, err = validation.NewSchemaValidator(&props); err != nil {
		return nil, fmt.Errorf("reading the schema in %s: %w", file, err)
	}
	c.rules = cel.NewValidator(c.structural, true, celconfig.PerCallLimit)
	return c, nil
}

// Admit fills in the defaults of a new object, which it changes. It returns an error if the object is refused.
func (c *CRD) Admit(ctx context.Context, object map[string]any) error {
	unknown, err := c.coerce(object)
	if err != nil {
		return err
	}
	if len(unknown) > 0 {
		return fmt.Errorf("unknown fields: %q", unknown)
	}
	delete(object, "status")
	meta, _, err := objectmeta.GetObjectMeta(object, false)
	if err != nil {
		return err
	}
	if meta == nil {
		return errors.New("metadata.name is required")
	}
	errs := metavalidation.ValidateObjectMeta(meta, true, metavalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, c.validate(ctx, object)...).ToAggregate()
}

// CheckStatus returns an error if the API server would not take the status of an object. What it takes of the rest is
// not asked again: Go drops values that are empty, of which the object that is stored has some that it must have.
func (c *CRD) CheckStatus(ctx context.Context, object map[string]any) error {
	unknown, err := c.coerce(object)
	if err != nil {
		return err
	}
	if len(unknown) > 0 {
		return fmt.Errorf("unknown fields: %q", unknown)
	}
	errs := c.validate(ctx, object)
	ofTheStatus := slices.DeleteFunc(errs, func(err *field.Error) bool { return !strings.HasPrefix(err.Field, "status") })
	return ofTheStatus.ToAggregate()
}

// coerce does what the API server does while it decodes: it fills in defaults, and drops unknown fields, which it
// names, and nulls.
func (c *CRD) coerce(object map[string]any) (unknown []string, err error) {
	defaulting.Default(object, c.structural)
	meta, hasMeta, unknown, err := objectmeta.GetObjectMetaWithOptions(object,
		objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, err
	}
	track := structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	unknown = append(unknown, pruning.PruneWithOptions(object, c.structural, true, track)...)
	defaulting.PruneNonNullableNullsWithoutDefaults(object, c.structural)
	malformed, unknownEmbedded := objectmeta.CoerceWithOptions(nil, object, c.structural, false,
		objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	if malformed != nil {
		return nil, malformed
	}
	if hasMeta {
		err = objectmeta.SetObjectMeta(object, meta)
	}
	return append(unknown, unknownEmbedded...), err
}

func (c *CRD) validate(ctx context.Context, object map[string]any) field.ErrorList {
	errs := validation.ValidateCustomResource(nil, object, c.schema)
	if c.scaled != nil {
		path := field.NewPath(c.scaled[0], c.scaled[1:]...)
		if n, _, err := unstructured.NestedInt64(object, c.scaled...); err != nil || n < 0 || n > math.MaxInt32 {
			errs = append(errs, field.Invalid(path, n, "must be an integer of 31 bits"))
		}
	}
	errs = append(errs, objectmeta.Validate(ctx, nil, object, c.structural, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, c.structural, object)...)
	if len(errs) > 0 {
		return errs // the rules presume what the schema demands
	}
	errs, _ = c.rules.Validate(ctx, nil, c.structural, object, nil, celconfig.RuntimeCELCostBudget)
	return errs
}
