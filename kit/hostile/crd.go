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

// CRD validates jobs like an API server that serves the CustomResourceDefinition, with strict field validation,
// defaults and CEL rules. It uses the packages of the API server, so that a fuzzer does not need a running one. Survey
// compares it with a real API server.
type CRD struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
	// scaled is the path of the field that the scale subresource sets. Nil means that there is no scale subresource.
	scaled []string
}

// ReadCRD reads the manifest of a CustomResourceDefinition, which must have exactly one version.
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

// Admit sets the defaults of a new object in place. It returns an error if the API server would reject the object.
func (c *CRD) Admit(ctx context.Context, object map[string]any) error {
	unknown, err := c.coerce(object)
	if err != nil {
		return err
	}
	if len(unknown) > 0 {
		return fmt.Errorf("the object has unknown fields: %q", unknown)
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

// CheckStatus returns an error if the API server would reject the status of an object. It ignores errors in other
// fields, because the Go types omit empty values that the stored object has and that are required.
func (c *CRD) CheckStatus(ctx context.Context, object map[string]any) error {
	unknown, err := c.coerce(object)
	if err != nil {
		return err
	}
	if len(unknown) > 0 {
		return fmt.Errorf("the object has unknown fields: %q", unknown)
	}
	errs := c.validate(ctx, object)
	ofTheStatus := slices.DeleteFunc(errs, func(err *field.Error) bool { return !strings.HasPrefix(err.Field, "status") })
	return ofTheStatus.ToAggregate()
}

// coerce decodes an object as the API server does. It sets defaults and removes nulls and unknown fields. It returns
// the paths of the unknown fields.
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
			errs = append(errs, field.Invalid(path, n, "must be an integer from 0 to 2147483647"))
		}
	}
	errs = append(errs, objectmeta.Validate(ctx, nil, object, c.structural, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, c.structural, object)...)
	if len(errs) > 0 {
		return errs // the rules expect an object that matches the schema
	}
	errs, _ = c.rules.Validate(ctx, nil, c.structural, object, nil, celconfig.RuntimeCELCostBudget)
	return errs
}
