{{/* Ports of the service and the proxies outside of this release. */}}
{{- define "vedette.waysOut" -}}
{{- $ports := list -}}
{{- range list (include "vedette.otherService" .) .Values.proxy.httpsProxy .Values.proxy.httpProxy -}}
{{- if . -}}
{{- $url := urlParse . -}}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" -}}
{{- $ports = append $ports (default (eq $url.scheme "https" | ternary 443 80) $port | int) -}}
{{- end -}}
{{- end -}}
{{- if .Values.proxy.existingSecret -}}
{{/* The chart does not see the addresses in it: the usual ports of proxies. */}}
{{- $ports = concat $ports (list 3128 8080) -}}
{{- end -}}
{{- toYaml (uniq $ports) -}}
{{- end }}

{{/*
Those of the exceptions that lie in a block, as an ipBlock demands it: (list block exceptions). Helm cannot
reckon with addresses, so only the whole of IPv4 and IPv6 gets any; narrower blocks say what they mean.
*/}}
{{- define "vedette.exceptions" -}}
{{- $family := dict "0.0.0.0/0" "." "::/0" ":" -}}
{{- $mark := get $family (index . 0) -}}
{{- $made := list -}}
{{- if $mark -}}
{{- range index . 1 }}{{ if contains $mark . }}{{ $made = append $made . }}{{ end }}{{ end -}}
{{- end -}}
{{- toYaml $made -}}
{{- end }}
