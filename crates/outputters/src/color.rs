//! The colours of the terminal, under Salt's names for them.

use std::borrow::Cow;

use ::value::Value;

/// The escape sequences of the colours; all empty if colours are off.
#[derive(Clone, Debug, Default)]
pub struct Colors {
    /// Dark grey.
    pub dark_gray: Cow<'static, str>,
    /// Red.
    pub red: Cow<'static, str>,
    /// Light red.
    pub light_red: Cow<'static, str>,
    /// Green.
    pub green: Cow<'static, str>,
    /// Light green.
    pub light_green: Cow<'static, str>,
    /// Yellow.
    pub yellow: Cow<'static, str>,
    /// Light yellow.
    pub light_yellow: Cow<'static, str>,
    /// Blue.
    pub blue: Cow<'static, str>,
    /// Light blue.
    pub light_blue: Cow<'static, str>,
    /// Magenta.
    pub magenta: Cow<'static, str>,
    /// Light magenta.
    pub light_magenta: Cow<'static, str>,
    /// Cyan.
    pub cyan: Cow<'static, str>,
    /// Light grey.
    pub light_gray: Cow<'static, str>,
    /// White.
    pub white: Cow<'static, str>,
    /// Resets the colour.
    pub end: Cow<'static, str>,
}

impl Colors {
    /// Returns no colours.
    pub fn off() -> Self {
        Colors::default()
    }

    /// Returns the default colours.
    pub fn on() -> Self {
        Colors {
            dark_gray: "\x1b[0;1;30m".into(),
            red: "\x1b[0;31m".into(),
            light_red: "\x1b[0;1;31m".into(),
            green: "\x1b[0;32m".into(),
            light_green: "\x1b[0;1;32m".into(),
            yellow: "\x1b[0;33m".into(),
            light_yellow: "\x1b[0;1;33m".into(),
            blue: "\x1b[0;34m".into(),
            light_blue: "\x1b[0;1;34m".into(),
            magenta: "\x1b[0;35m".into(),
            light_magenta: "\x1b[0;1;35m".into(),
            cyan: "\x1b[0;36m".into(),
            light_gray: "\x1b[0;37m".into(),
            white: "\x1b[0;1;37m".into(),
            end: "\x1b[0;0m".into(),
        }
    }

    /// Returns the default colours, with those of a theme (name of the colour to its number) over them.
    pub fn themed(theme: &Value) -> Self {
        let mut colors = Colors::on();
        for (name, code) in theme.as_map().into_iter().flatten() {
            // Theme files contain only the number, such as `0;31`.
            let sequence = format!("\x1b[{code}m");
            if let Some(place) = name.as_str().and_then(|name| colors.place(name)) {
                *place = sequence.into();
            }
        }
        colors
    }

    fn place(&mut self, name: &str) -> Option<&mut Cow<'static, str>> {
        Some(match name {
            "DARK_GRAY" => &mut self.dark_gray,
            "RED" => &mut self.red,
            "LIGHT_RED" => &mut self.light_red,
            "GREEN" => &mut self.green,
            "LIGHT_GREEN" => &mut self.light_green,
            "YELLOW" => &mut self.yellow,
            "LIGHT_YELLOW" => &mut self.light_yellow,
            "BLUE" => &mut self.blue,
            "LIGHT_BLUE" => &mut self.light_blue,
            "MAGENTA" => &mut self.magenta,
            "LIGHT_MAGENTA" => &mut self.light_magenta,
            "CYAN" => &mut self.cyan,
            "LIGHT_GRAY" => &mut self.light_gray,
            "WHITE" => &mut self.white,
            "ENDC" => &mut self.end,
            _ => return None,
        })
    }
}
