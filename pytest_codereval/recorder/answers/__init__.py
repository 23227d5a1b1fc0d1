"""Who answers the calls of recorded tools: rules, handlers, cassettes and fallbacks."""
